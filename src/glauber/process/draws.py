"""Float64 random draws. float32 uniforms have 2^24 values and quietly lower the temperature of a large vocabulary."""

from collections.abc import Sequence

import torch
from torch import Tensor


def uniform(shape: Sequence[int], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Float64 uniforms in [0, 1), drawn where the generator lives and moved to `device`."""
    source = generator.device if generator is not None else device
    return torch.rand(tuple(shape), dtype=torch.float64, generator=generator, device=source).to(device)


def categorical(weights: Tensor, u: Tensor) -> Tensor:
    """Draw an index per row by inverting the cumulative sum: weights (..., V) ≥ 0, u (...) in [0, 1) → (...).

    The weights need not sum to one. An index of weight zero is never drawn.
    """
    return inverse_cdf(weights.double().cumsum(-1), u)


def inverse_cdf(cdf: Tensor, u: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds u · total: cdf (..., V) or (V,), u (...)."""
    total = cdf[..., -1]
    # u · total may round up to total itself; one step down keeps the answer inside the support.
    target = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
    if cdf.dim() == 1:
        return torch.searchsorted(cdf, target, right=True)
    return torch.searchsorted(cdf.contiguous(), target.unsqueeze(-1), right=True).squeeze(-1)
