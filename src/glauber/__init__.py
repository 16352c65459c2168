"""glauber: the Glauber Generative Model. It needs torch and numpy alone, and reads them when a name is first used."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glauber.chain import CallCounter, Truncation, run_chain
    from glauber.codec import ImageCodec, PatchCodec, PixelCodec
    from glauber.conditional import Classifier, Conditional, Denoiser, Oracle, StepLaw, Transformer, TransformerConfig
    from glauber.evaluate import Bound, bound
    from glauber.model import Model, load
    from glauber.objective import binary, dense, marginal
    from glauber.process import Corruption, NoiseLaw, Process, Schedule
    from glauber.train import fit

__version__ = "0.2.0"

__all__ = [
    "Bound",
    "CallCounter",
    "Classifier",
    "Conditional",
    "Corruption",
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
    "fit",
    "load",
    "marginal",
    "run_chain",
]

_HOMES = {
    "chain": ("CallCounter", "Truncation", "run_chain"),
    "codec": ("ImageCodec", "PatchCodec", "PixelCodec"),
    "conditional": ("Classifier", "Conditional", "Denoiser", "Oracle", "StepLaw", "Transformer", "TransformerConfig"),
    "evaluate": ("Bound", "bound"),
    "model": ("Model", "load"),
    "objective": ("binary", "dense", "marginal"),
    "process": ("Corruption", "NoiseLaw", "Process", "Schedule"),
    "train": ("fit",),
}


def __getattr__(name: str) -> Any:
    """A public name from its module, or a module of ours, when it is first asked for: so help need not wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return globals().setdefault(name, getattr(import_module(f"glauber.{home}"), name))
    if name.startswith("_") or find_spec(f"glauber.{name}") is None:
        raise AttributeError(f"module 'glauber' has no attribute {name!r}")
    return import_module(f"glauber.{name}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_HOMES, "__version__"])
