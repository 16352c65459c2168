"""How a chain's steps are repeated on a GPU: the network compiled, and a step as a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor

from glauber.conditional import CausalConditional, Conditional, Denoiser, Transformer
from glauber.runtime.compile import compiled
from glauber.runtime.cuda_graph import CudaGraph

Step = Callable[[], Tensor]
WORTH = 32
"""Steps from which on a CUDA graph of one pays."""
COMPILED = 5e15
"""Products of two numbers from which on compiling the network pays."""


@contextmanager
def cuda_runner(conditional: Conditional, x: Tensor, calls: float) -> Iterator[Callable[[Step, int], Step | None] | None]:
    """A `Runner` of a chain: compiled, and a CUDA graph, on a GPU where that pays; eager elsewhere.

    What a graphed step does in Python is done once. Only of our own network it is known that this is all right.
    """
    network = conditional.network if isinstance(conditional, Denoiser | CausalConditional) else None
    if not x.is_cuda or not isinstance(network, Transformer):
        yield None
        return
    able = isinstance(conditional, Denoiser) and find_spec("triton") is not None
    with compiled(network) if able and pays_compiled(network, x, calls) else nullcontext():
        yield partial(graphed, x.device)


def graphed(device: torch.device, step: Step, calls: int) -> Step | None:
    """The step as a CUDA graph, if it is repeated so often that this pays."""
    return CudaGraph(step, device) if calls > WORTH else None


def pays_compiled(network: Transformer, x: Tensor, calls: float) -> bool:
    """Whether to compile: not for those who want float32, and so the network as it is, nor for a short chain."""
    products = calls * x.numel() * sum(parameter.numel() for parameter in network.blocks.parameters())
    return torch.is_autocast_enabled(x.device.type) and products > COMPILED
