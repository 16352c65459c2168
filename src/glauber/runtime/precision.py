"""A network in bfloat16 for a while, which is faster on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from glauber.conditional.transformer import Transformer
from glauber.runtime.temporary import USERS, Restore, changed


@contextmanager
def bfloat16(network: Transformer) -> Iterator[None]:
    """Products in bfloat16, the rest in float32, as a network is trained on a GPU.

    Autocast alone would round the matrices again in each compiled call. Those of the blocks are nearly all there are; here they
    are rounded once, which changes no answer.
    """

    def round_matrices() -> Restore:
        layers = [layer for layer in network.blocks.modules() if isinstance(layer, nn.Linear)]
        whole = [(layer, name, parameter) for layer in layers for name, parameter in layer.named_parameters()]
        rounded = [(layer, name, nn.Parameter(p.detach().bfloat16(), requires_grad=False)) for layer, name, p in whole]
        _put(rounded)
        return lambda: _put(whole)

    with changed(network, "bfloat16", round_matrices), torch.autocast(network.head.weight.device.type, torch.bfloat16):
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
