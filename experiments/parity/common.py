"""What these scripts share: importing another project's code from a checkout, seeing what its samplers draw from, comparing."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from glauber import NoiseLaw, Process, Schedule

VOCAB, LENGTH, ROWS = 11, 7, 64
EPS = 1e-3
"""Where the official log-linear clocks stop: their time t is ours of (1 - EPS) t."""
PROCESS = Process(Schedule.round_robin(LENGTH, LENGTH, keep=0.0), NoiseLaw.uniform(VOCAB))


class Findings:
    """What was compared, with the largest difference of each, relative where the numbers are above 1."""

    def __init__(self, method: str, within: float):
        self.method, self.within, self.rows = method, within, list[dict[str, Any]]()

    def compare(self, what: str, theirs: Tensor, ours: Tensor) -> None:
        if theirs.shape != ours.shape:
            raise ValueError(f"{self.method}, {what}: theirs is {tuple(theirs.shape)}, ours {tuple(ours.shape)}")
        theirs, ours = theirs.detach().double(), ours.detach().double()
        difference = ((theirs - ours).abs() / theirs.abs().clamp_min(1.0)).max().item()
        row = {"method": self.method, "what": what, "numbers": theirs.numel(), "difference": difference, "within": self.within}
        self.rows.append(row | {"agree": difference <= self.within})  # not where it is no number


class Network:
    """A fixed random function of all tokens, (B, L) → (B, L, V) logits, called as a `Transformer` is; it knows no time."""

    def __init__(self, scale: float = 0.5):
        generator = torch.Generator().manual_seed(0)
        shape = (LENGTH, VOCAB + 1, LENGTH, VOCAB)
        self.table = scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    def __call__(self, z: Tensor, *_: Any) -> Tensor:
        return self.table[torch.arange(LENGTH), z].sum(1)

    def wide(self, z: Tensor, *_: Any, **__: Any) -> Tensor:
        """With a column for the mask, as official networks have it; what it says should not matter."""
        return torch.cat([self(z), torch.full((*z.shape, 1), 1.7, dtype=torch.float64)], -1)


def noised(x0: Tensor) -> Tensor:
    """Rows (B, L) in which about four tokens in ten are those of another row."""
    return torch.where(torch.rand(x0.shape, generator=torch.Generator().manual_seed(3)) < 0.4, x0.flip(0), x0)


def rows_and_times() -> tuple[Tensor, Tensor]:
    """(B, L) clean tokens and (B,) times between 0 and 1."""
    generator = torch.Generator().manual_seed(1)
    x0 = torch.randint(VOCAB, (ROWS, LENGTH), generator=generator)
    return x0, torch.linspace(0.01, 0.99, ROWS, dtype=torch.float64)


CONTINUOUS: dict[str, Any] = {
    "subs_masking": False,
    "T": 0,
    "change_of_variables": False,
    "importance_sampling": False,
}
"""Settings of the official `Diffusion` of MDLM and of UDLM: its plain loss in continuous time."""
STEPS = ((1.0, 0.75), (0.6, 0.5), (0.3, 0.05))
"""Times between which a sampler steps."""


@contextmanager
def checkout(path: Path, *stubs: str) -> Iterator[None]:
    """Modules come from this folder, and in float64; the `stubs`, which formulas do not need, stand for what is not there."""
    if not path.is_dir():
        raise ValueError(f"{path} is no folder; name a checkout of the official repository")
    modules, default = dict(sys.modules), torch.get_default_dtype()
    sys.path.insert(0, str(path))
    for name in stubs:
        sys.modules[name] = stub(name)
        if "." in name:
            folder, _, last = name.rpartition(".")
            setattr(sys.modules[folder], last, sys.modules[name])
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(default)
        sys.path.remove(str(path))
        theirs = {name.partition(".")[0] for name in stubs} | {entry.stem for entry in path.iterdir()}
        for name in set(sys.modules) - set(modules):
            if name.partition(".")[0] in theirs:
                del sys.modules[name]
        sys.modules.update({name: module for name, module in modules.items() if name in stubs})


def stub(name: str) -> ModuleType:
    """A module in which every name is a class of no use."""
    module = ModuleType(name)

    def anything(attribute: str) -> type:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return type(attribute, (nn.Module,), {"__init__": lambda self, *_, **__: nn.Module.__init__(self)})

    module.__dict__.update({"__getattr__": anything, "__path__": []})
    return module


def bare(kind: type, **attributes: Any) -> Any:
    """An object of an official class that was not initialised: it has the attributes that its formulas use, and no others."""
    made: Any = object.__new__(kind)
    nn.Module.__init__(made)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def drawn_from(module: ModuleType, name: str, call: Callable[[], Any]) -> Tensor:
    """The law from which `call` draws with the module's function of that name: made to sum to one, and never below 0, as all
    these functions take it."""
    seen, original = list[Tensor](), getattr(module, name)

    def watched(law: Tensor, *inputs: Any, **options: Any) -> Tensor:
        seen.append(law.clone())
        drawn: Tensor = original(law, *inputs, **options)
        return drawn

    setattr(module, name, watched)
    try:
        call()
    finally:
        setattr(module, name, original)
    (law,) = (each.clamp_min(0.0) for each in seen)
    return law / law.sum(-1, keepdim=True)
