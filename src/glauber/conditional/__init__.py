"""Things that know P(X_0[site] | the others): the exact oracle, the transformer, the paper's classifier."""

from glauber.conditional.adapters import CLASSIFIERS, Classifier, Denoiser, Reader, conditional_of, require_classifiable
from glauber.conditional.layout import Layout
from glauber.conditional.oracle import Oracle
from glauber.conditional.protocol import Conditional, StepLaw
from glauber.conditional.transformer import Cache, Transformer, TransformerConfig

__all__ = [
    "CLASSIFIERS",
    "Cache",
    "Classifier",
    "Conditional",
    "Denoiser",
    "Layout",
    "Oracle",
    "Reader",
    "StepLaw",
    "Transformer",
    "TransformerConfig",
    "conditional_of",
    "require_classifiable",
]
