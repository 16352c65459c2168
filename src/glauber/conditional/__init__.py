"""Things that know P(X_0[site] | the others): the exact oracle, the transformer, the paper's classifier."""

from glauber.conditional.adapters import Classifier, Denoiser, require_classifiable
from glauber.conditional.oracle import Oracle
from glauber.conditional.protocol import Conditional, StepLaw
from glauber.conditional.transformer import Transformer, TransformerConfig

__all__ = [
    "Classifier",
    "Conditional",
    "Denoiser",
    "Oracle",
    "StepLaw",
    "Transformer",
    "TransformerConfig",
    "require_classifiable",
]
