"""How much memory there is, looked up before it is taken: a machine that has none left kills whatever it likes."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
"""What Linux says of the machine in kB, and of the container that we may be in, in bytes."""


def require_memory(needed: float, what: str, then: str, device: "torch.device | None" = None) -> None:
    """Refuse what takes more bytes than there are: `what` takes so much, and there is so much; `then` says what to do."""
    there = free_memory(device)
    if needed > there:
        raise ValueError(f"{what} takes at least {in_words(needed)} of memory, and there are {in_words(there)}; {then}")


def free_memory(device: "torch.device | None" = None) -> float:
    """Bytes that can be had: of a GPU, or of this machine; without end where nobody says."""
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    if MEMINFO.is_file():
        said = dict(re.findall(r"(\w+): +(\d+) kB", MEMINFO.read_text()))
        group = GROUP.read_text().strip() if GROUP.is_file() else "max"
        free = 1024.0 * (int(said["MemAvailable"]) + int(said.get("SwapFree", 0)))
        return free if group == "max" else min(free, float(group))
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")


def in_words(size: float) -> str:
    """As 4.5 GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
