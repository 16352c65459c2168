"""The methods by their names, as a recipe and a saved model have them."""

from glauber.method import sedd
from glauber.method.autoregressive import Autoregressive
from glauber.method.base import Method
from glauber.method.ggm import GGM, ClassifierGGM
from glauber.method.mdlm import MDLM
from glauber.method.mlm import MaskedLanguageModel
from glauber.method.plaid import EmbeddingDiffusion
from glauber.method.udlm import UDLM
from glauber.objective import binary, marginal

METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known by its name: it can then be trained, sampled, scored and compared as the others are."""
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already; give yours another name")
    METHODS[method.name] = method
    return method


def find_method(name: str) -> Method:
    """A method by its name."""
    if name not in METHODS:
        raise ValueError(f"method is one of {', '.join(METHODS)}, not {name!r}")
    return METHODS[name]


for _method in (
    GGM(),
    ClassifierGGM("ggm-marginal", marginal),
    ClassifierGGM("ggm-binary", binary),
    Autoregressive(),
    MaskedLanguageModel(),
    MDLM(),
    sedd.Absorbing(),
    sedd.Uniform(),
    UDLM(),
    EmbeddingDiffusion(),
):
    register(_method)
