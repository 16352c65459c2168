"""CUDA graphs: work that is captured once and then replayed, so that the host starts one thing instead of thousands.

A small network's kernels are shorter than the time that Python takes to start them; replaying takes the host out of it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

EAGER = 3
"""Eager calls before the capture, in which all that is made once (compiled blocks, tables, the optimiser's moments) is made."""


class CudaGraph:
    """A function without arguments whose work is the same on each call: what differs lies in tensors that stay in place.

    The first calls are eager, on a stream of their own, as the capture needs it. The result is a tensor that the next call
    overwrites.
    """

    def __init__(self, work: Callable[[], Tensor], device: torch.device):
        self.work, self.calls, self.device = work, 0, device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.graph = torch.cuda.CUDAGraph()
        self.result: Tensor | None = None

    @property
    def ready(self) -> bool:
        """Whether it has been captured."""
        return self.result is not None

    def __call__(self) -> Tensor:
        with torch.cuda.device(self.device):
            return self._call()

    def _call(self) -> Tensor:
        self.calls += 1
        if self.calls <= EAGER:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                result = self.work()
            torch.cuda.current_stream().wait_stream(self.stream)
            return result
        if self.result is None:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()  # the graph has memory of its own: give back what the first calls held
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # another thread loads data meanwhile
                self.result = self.work()
        self.graph.replay()
        return self.result
