"""Tokens and masks as users hold them: tensors, arrays, lists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Tokens = Tensor | np.ndarray | Sequence[Any]
"""Whole numbers of any type and shape."""
Mask = Tensor | np.ndarray | Sequence[Any]
"""Booleans of any shape."""


def as_tokens(x: Tokens) -> Tensor:
    """The same as an int64 tensor; anything but whole numbers is refused."""
    if not isinstance(x, Tensor):
        array = as_array(x, "tokens")
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"tokens must be whole numbers, not {array.dtype}")
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"tokens must lie below 2^63, and one is {array.max()}")
        x = torch.from_numpy(array.astype(np.int64))
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        raise ValueError(f"tokens must be whole numbers, not {x.dtype}")
    return x.long()


def as_mask(x: Mask, what: str) -> Tensor:
    """The same as a tensor; `what` takes a mask of booleans alone."""
    mask = x if isinstance(x, Tensor) else as_array(x, "a mask")
    if mask.dtype not in (torch.bool, np.bool_):
        raise ValueError(f"{what} takes a mask of booleans, not of {mask.dtype}")
    return mask if isinstance(mask, Tensor) else torch.from_numpy(mask.astype(np.bool_))


def as_array(x: Sequence[Any] | np.ndarray, what: str) -> np.ndarray:
    """Of lists that have a shape."""
    try:
        return np.asarray(x)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} may be a tensor, an array, or lists, all of them equally long") from error
