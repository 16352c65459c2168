"""Things that know P(X_0[site] | the others): the exact oracle, the transformer, the paper's classifier."""

from glauber.conditional.adapters import (
    CausalConditional,
    Classifier,
    Denoiser,
    check_guidance,
    require_classifiable,
)
from glauber.conditional.layout import Layout
from glauber.conditional.oracle import Oracle
from glauber.conditional.protocol import Conditional, StepLaw
from glauber.conditional.transformer import Cache, Transformer, TransformerConfig

__all__ = [
    "Cache",
    "CausalConditional",
    "Classifier",
    "Conditional",
    "Denoiser",
    "Layout",
    "Oracle",
    "StepLaw",
    "Transformer",
    "TransformerConfig",
    "check_guidance",
    "require_classifiable",
]
