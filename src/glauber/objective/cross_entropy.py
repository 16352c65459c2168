"""Cross-entropy behind a linear layer, a few rows at a time: the whole N × V table of logits is never made."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

TABLE = 1 << 27
"""Most logits at a time."""
ALIGNED = 64
"""Columns of a bfloat16 product come in multiples of this."""


def linear_cross_entropy(
    h: Tensor, weight: Tensor, bias: Tensor, token: Tensor, evidence: Tensor, target: Tensor, scale: Tensor
) -> Tensor:
    """Σ_n scale_n · CE(h_n Wᵀ + bias + evidence_n δ_{token_n}, target_n), a scalar.

    The gradient is worked out in the forward pass, chunk by chunk, as long as the logits are there; so nothing of size N × V is
    kept, and no matrix product is made twice. In bfloat16 the products are, the softmax is float32.

    Args:
        h: (N, D), weight: (V, D), bias: (V,), token, target: (N,) int64, evidence, scale: (N,).
    """
    total: Tensor = _LinearCrossEntropy.apply(h, weight, bias, token, evidence, target, scale)  # type: ignore[no-untyped-call]
    return total


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, *labels: Tensor) -> Tensor:
        low = torch.is_autocast_enabled(h.device.type)
        kind = torch.bfloat16 if low else h.dtype
        part_of = _compiled() if h.is_cuda else _part
        with torch.autocast(h.device.type, enabled=False):
            low_h, low_w, high_b = h.to(kind), weight.to(kind), bias.float() if low else bias
            if low and (short := -len(weight) % ALIGNED):  # tensor cores want round numbers; a token of bias -inf is no token
                low_w, high_b = F.pad(low_w, (0, 0, 0, short)), F.pad(high_b, (0, short), value=-torch.inf)
            dh, dw, db = torch.empty_like(low_h), torch.zeros_like(low_w, dtype=weight.dtype), torch.zeros_like(high_b)
            total = torch.zeros((), dtype=high_b.dtype, device=h.device)
            for part in _parts(len(h), len(low_w)):
                loss, dlogits = part_of(low_h[part] @ low_w.T, high_b, *(label[part] for label in labels))
                total += loss
                db += dlogits.sum(0, dtype=db.dtype)
                dh[part] = dlogits @ low_w
                dw += dlogits.T @ low_h[part]
        ctx.save_for_backward(dh.to(h.dtype), dw[: len(weight)], db[: len(weight)].to(bias.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw, db = ctx.saved_tensors
        return dh * grad.to(dh.dtype), dw * grad.to(dw.dtype), db * grad.to(db.dtype), None, None, None, None


def _parts(rows: int, columns: int) -> list[slice]:
    """Equal parts of the rows, but for the last, none with more than TABLE logits."""
    number = -(-rows * columns // TABLE)
    size = -(-rows // number)
    return [slice(start, start + size) for start in range(0, rows, size)]


def _part(
    logits: Tensor, bias: Tensor, token: Tensor, evidence: Tensor, target: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """The loss of some rows, and its gradient by their logits: scale · (softmax - δ_target)."""
    column = torch.arange(logits.shape[1], device=logits.device)
    own, right = column == token[:, None], column == target[:, None]
    high = logits.to(bias.dtype) + bias + torch.where(own, evidence.to(bias.dtype)[:, None], 0.0)
    log_total = high.logsumexp(1, keepdim=True)
    scale = scale.to(bias.dtype)[:, None]
    loss = (scale * (log_total - torch.where(right, high, 0.0).sum(1, keepdim=True))).sum()
    dlogits = scale * ((high - log_total).exp() - right.to(bias.dtype))
    return loss, dlogits.to(logits.dtype)


@cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor]]:
    """`_part` as two kernels instead of a dozen. Made when first needed: the compiler takes long to import."""
    return torch.compile(_part, dynamic=False)
