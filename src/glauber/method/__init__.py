"""Methods: GGM and others on the same network, data and trainer, by their names in a recipe; see docs/methods/.

ggm           dense loss; ggm-marginal and ggm-binary with the paper's classifier
ar            autoregressive: one sweep from left to right with keep 0, a corner of the same chain
mlm           Gibbs sampling with a masked language model: the heat bath with keep 1, another corner
mdlm          masked diffusion
sedd          score entropy, absorbing; sedd-uniform with uniform noise
udlm          uniform-state diffusion
plaid         Gaussian diffusion over learned embeddings
"""

from glauber.method.base import BoundOptions, Bounds, Capabilities, Compared, LossOptions, Method
from glauber.method.chain import ChainMethod
from glauber.method.diffusion import Diffusion
from glauber.method.mlm import MaskedLM, gibbs_process
from glauber.method.registry import METHODS, find_method, register
from glauber.method.sampling import Request, Run, Samples, SamplingPlan, class_number

__all__ = [
    "METHODS",
    "BoundOptions",
    "Bounds",
    "Capabilities",
    "ChainMethod",
    "Compared",
    "Diffusion",
    "LossOptions",
    "MaskedLM",
    "Method",
    "Request",
    "Run",
    "Samples",
    "SamplingPlan",
    "class_number",
    "find_method",
    "gibbs_process",
    "register",
]
