"""A network that is faster for a while: in bfloat16, or compiled. It comes back as it was."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from glauber.conditional.transformer import Transformer

Undo = Callable[[], None]
USERS: WeakKeyDictionary[Transformer, dict[str, tuple[int, Undo]]] = WeakKeyDictionary()
"""What each network is just now, for how many, and how to take it back."""
LOCK = Lock()


@contextmanager
def bfloat16(network: Transformer) -> Iterator[None]:
    """Products in bfloat16, the rest in float32, as a network is trained on a GPU.

    Autocast alone would round the matrices again in each compiled call. Those of the blocks are nearly all there are; here they
    are rounded once, which changes no answer.
    """

    def round_matrices() -> Undo:
        layers = [layer for layer in network.blocks.modules() if isinstance(layer, nn.Linear)]
        whole = [(layer, name, parameter) for layer in layers for name, parameter in layer.named_parameters()]
        rounded = [(layer, name, nn.Parameter(p.detach().bfloat16(), requires_grad=False)) for layer, name, p in whole]
        _put(rounded)
        return lambda: _put(whole)

    with _shared(network, "bfloat16", round_matrices), torch.autocast(network.head.weight.device.type, torch.bfloat16):
        yield


def _put(places: list[tuple[nn.Linear, str, nn.Parameter]]) -> None:
    """Others in their place, since those who wait for a parameter's gradient would lose it if its own data were exchanged."""
    for layer, name, parameter in places:
        setattr(layer, name, parameter)


def is_rounded(network: Transformer) -> bool:
    """Whether its weights are not the whole ones just now."""
    return "bfloat16" in USERS.get(network, {})


def pays_in_bfloat16(device: torch.device) -> bool:
    """Whether the device has fast products of bfloat16: GPUs of the last years. Of CPUs we have measured none that has."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


@contextmanager
def compiled(network: Transformer) -> Iterator[None]:
    """As by `compile_parts`. The next time, and for the same shapes, nothing has to be compiled again."""

    def compile_parts() -> Undo:
        already = network.compiled
        if not already:
            network.compile_parts()
        return lambda: None if already else _decompile(network)

    with _shared(network, "compiled", compile_parts):
        yield


def _decompile(network: Transformer) -> None:
    network.compiled = False
    for block in network.blocks:
        block._compiled_call_impl = None


@contextmanager
def _shared(network: Transformer, what: str, make: Callable[[], Undo]) -> Iterator[None]:
    """The first who comes makes it so, the last who goes takes it back: several threads may use one network."""
    with LOCK:
        users = USERS.setdefault(network, {})
        number, undo = users[what] if what in users else (0, make())
        users[what] = number + 1, undo
    try:
        yield
    finally:
        with LOCK:
            number, undo = users.pop(what)
            if number > 1:
                users[what] = number - 1, undo
            else:
                undo()
