"""glauber: the Glauber Generative Model. Importing it touches only torch and numpy."""

from glauber.chain import Counted, Truncation, run_chain
from glauber.codec import ImageCodec, PatchCodec, PixelCodec
from glauber.conditional import (
    Classifier,
    Conditional,
    Denoiser,
    Oracle,
    StepLaw,
    Transformer,
    TransformerConfig,
)
from glauber.evaluate import Bound, bound
from glauber.model import Model, load
from glauber.objective import binary, dense, marginal
from glauber.process import Corruption, NoiseLaw, Process, Schedule

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Classifier",
    "Conditional",
    "Corruption",
    "Counted",
    "Denoiser",
    "ImageCodec",
    "Model",
    "NoiseLaw",
    "Oracle",
    "PatchCodec",
    "PixelCodec",
    "Process",
    "Schedule",
    "StepLaw",
    "Transformer",
    "TransformerConfig",
    "Truncation",
    "binary",
    "bound",
    "dense",
    "load",
    "marginal",
    "run_chain",
]
