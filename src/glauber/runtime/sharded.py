"""Checkpoints in pieces, a file per process, for weights that no one process holds: torch's own layout of safetensors.

Each part is a folder, `weights/shard-00001-….safetensors`; where a piece lies in its tensor is said in the file's header. Any
number of processes can read what any other number wrote.
"""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Empty = Callable[[str, torch.Size], Tensor]
"""A tensor to read into, by name and shape: whole, or the pieces that this process holds."""


def write_part(folder: Path, named: dict[str, Tensor], rank: int) -> list[Path]:
    """Write our pieces, synced, while the others write theirs; the files that are ours."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_saver import save

    try:
        save(named, storage_writer=_storage("Writer")(str(folder), save_distributed=True))
    except CheckpointException as error:  # tells of all processes; it is no Exception
        raise OSError(_first(error.failures.values())) from error
    return sorted(folder.glob(f"shard-{rank + 1:05d}-*.safetensors"))


def read_part(folder: Path, empty: Empty) -> dict[str, Tensor]:
    """All tensors of a part, of each what `empty` has room for."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = _storage("Reader")(str(folder))
    named = {name: empty(name, about.size) for name, about in reader.read_metadata().state_dict_metadata.items()}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # on purpose: each process loads for itself
            load(named, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        raise ValueError(_first(error.failures.values())) from error
    return named


def _storage(kind: str) -> Any:
    """Torch's reader or writer of safetensors; that of its default format would unpickle."""
    import torch.distributed.checkpoint as checkpoint

    if not hasattr(checkpoint, f"HuggingFaceStorage{kind}"):
        raise ImportError("checkpoints of fsdp need a newer torch: pip install 'torch>=2.9', or --set train.parallel=ddp")
    return getattr(checkpoint, f"HuggingFaceStorage{kind}")


def _first(failures: Iterable[Any]) -> str:
    error = next(iter(failures))[0]
    return getattr(error, "strerror", None) or str(error)
