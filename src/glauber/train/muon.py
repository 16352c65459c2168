"""Muon: a matrix's momentum, orthogonalised (Jordan et al. 2024; scaled as in arXiv 2502.16982), and AdamW for the rest.

For a matrix W (m, n) with gradient G, step after step:
    M ← μM + (1 - μ)G
    O = NewtonSchulz(μM + (1 - μ)G), about U Vᵀ of that matrix's singular value decomposition U S Vᵀ
    W ← (1 - η λ) W - η · 0.2 √max(m, n) · O, whose entries are then about as large as those of an AdamW step
torch.optim.Muon does the same, but cannot be recorded on a GPU, takes no weights in pieces, and is not in the oldest torch
that this project supports.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from glauber.conditional import Transformer
from glauber.recipe import TrainSpec
from glauber.train.parallel import cut_like

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
AT_ONCE = 2**26
"""Numbers of the matrices that are orthogonalised together."""


class Muon(torch.optim.Optimizer):
    """Matrices of one shape are orthogonalised together; one that is held in pieces is brought together for its step.

    Args:
        params: matrices, or groups of them; a group's `stacked` says how many matrices of equal height stand in each, one
            below the other, and are moved as matrices of their own.
        lr: a number, or a tensor that changes in place where the step is recorded.
    """

    def __init__(self, params: Any, lr: float | Tensor, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "stacked": 1})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2 or len(parameter) % group["stacked"]:
                    raise ValueError(f"Muon is for matrices, not for a tensor of shape {tuple(parameter.shape)}")

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step; matrices without a gradient stay."""
        for group in self.param_groups:
            given = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in given:
                if not self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            for together in _batches(given):
                self._move(together, group["lr"], group["weight_decay"], group["stacked"])

    def _move(self, parameters: list[nn.Parameter], lr: float | Tensor, weight_decay: float, stacked: int) -> None:
        """One step of some matrices of one shape."""
        own = [_local(parameter) for parameter in parameters]
        gradients = [_local(parameter.grad) for parameter in parameters]
        momenta = [_local(self.state[parameter]["momentum"]) for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        mixed = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        updates = [_whole_like(each, parameter) for each, parameter in zip(mixed, parameters, strict=True)]
        together = torch.stack(updates)
        matrices = together.view(len(updates) * stacked, -1, together.shape[2])
        scale = 0.2 * max(matrices.shape[1:]) ** 0.5
        orthogonal = newton_schulz(matrices).reshape(together.shape)
        for mine, parameter, update in zip(own, parameters, orthogonal.unbind(), strict=True):
            mine.mul_(1 - lr * weight_decay)
            mine.sub_(_local(cut_like(update.to(mine.dtype), parameter)) * (lr * scale))


def newton_schulz(matrices: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """(N, m, n) → about U Vᵀ of each, its singular values within about [0.7, 1.2], by five steps of an odd polynomial.

    In bfloat16 where a GPU is fast in it, if not told otherwise.
    """
    a, b, c = COEFFICIENTS
    x = matrices.to(dtype or (torch.bfloat16 if matrices.is_cuda else matrices.dtype))
    wide = matrices.shape[1] <= matrices.shape[2]
    x = x if wide else x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)  # aX + (bA + cA²)X, A = XXᵀ
    return x if wide else x.mT


def make_optimizers(network: Transformer, spec: TrainSpec, lr: float | Tensor, graphed: bool) -> list[torch.optim.Optimizer]:
    """AdamW for all weights, or Muon for the blocks' matrices and AdamW for the others, at the same rate and decay."""
    matrices = {name: p for name, p in network.named_parameters() if spec.optimizer == "muon" and _is_block_matrix(name)}
    chosen = [
        {"params": [p for name, p in matrices.items() if ("qkv" in name) == stacked], "stacked": 3 if stacked else 1}
        for stacked in (False, True)  # queries, keys and values are three products, made as one
    ]
    ids = set(map(id, matrices.values()))
    rest = [parameter for parameter in network.parameters() if id(parameter) not in ids]
    adamw = torch.optim.AdamW(
        rest, lr=lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, fused=True, capturable=graphed
    )
    return [adamw, Muon(chosen, lr, spec.weight_decay)] if matrices else [adamw]


def _is_block_matrix(name: str) -> bool:
    """A block's products, not what the condition sets."""
    return name.startswith("blocks.") and name.endswith(".weight") and not any(part in name for part in ("norm", "modulation"))


def _batches(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Those of one shape, so many at a time that no more than AT_ONCE numbers are copied."""
    for shape, same in groupby(sorted(parameters, key=lambda p: tuple(p.shape)), key=lambda p: tuple(p.shape)):
        alike, most = list(same), max(1, AT_ONCE // (shape[0] * shape[1]))
        yield from (alike[k : k + most] for k in range(0, len(alike), most))


def _local(value: Tensor | None) -> Tensor:
    """What this process holds of a tensor."""
    assert value is not None
    held: Tensor = value.to_local() if hasattr(value, "to_local") else value
    return held


def _whole_like(value: Tensor, parameter: nn.Parameter) -> Tensor:
    """The whole matrix, of which each process holds its piece as it does of the parameter."""
    if not hasattr(parameter, "to_local"):
        return value
    from torch.distributed.tensor import DTensor

    mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
    pieces = DTensor.from_local(value, mesh, placements, shape=parameter.shape, stride=parameter.stride())
    whole: Tensor = pieces.full_tensor()
    return whole
