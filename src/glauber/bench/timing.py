"""Clocks and gauges of the benches."""

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def matmul_rate(device: torch.device, size: int) -> float:
    """FLOP/s of a square bfloat16 product, the best of five."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return max(2.0 * size**3 / seconds_per_call(lambda: a @ b, device, 0.5) for _ in range(5))


def seconds_per_call(step: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """Seconds per call, after a warm-up, over as many calls as fit."""

    def timed(calls: int) -> float:
        wait(device)
        began = time.perf_counter()
        for _ in range(calls):
            step()
        wait(device)
        return (time.perf_counter() - began) / calls

    for _ in range(5):
        step()
    once = timed(2)
    return timed(int(np.clip(seconds / once, 3, 10_000)))


def wait(device: torch.device) -> None:
    """Until the card has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def clear(device: torch.device) -> None:
    """Forget what the row before has left, and begin to watch the memory anew."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory(device: torch.device) -> tuple[float, float]:
    """GB: the most that was in use, and the most that was taken from the card."""
    if device.type != "cuda":
        return float("nan"), float("nan")
    return torch.cuda.max_memory_allocated() / 1e9, torch.cuda.max_memory_reserved() / 1e9


def device_name(device: torch.device) -> str:
    """The card's, or cpu."""
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
