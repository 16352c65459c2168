"""One training step after the other, restartable: its state is tensors, its randomness a function of (seed, step, row)."""

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glauber.conditional import Transformer, require_classifiable
from glauber.objective import OBJECTIVES
from glauber.process import Process
from glauber.process.draws import Keyed
from glauber.train.average import Average
from glauber.train.order import shuffled
from glauber.train.parallel import ALONE, World, cut_like, distribute
from glauber.train.recipe import TrainSpec


class Rows(Protocol):
    """Training data: N sequences of L tokens, read by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: np.ndarray) -> np.ndarray: ...


class Trainer:
    """The network, its average, its optimiser and where they stand.

    `advance` makes one step. `state` and `load_state` carry everything that the next step depends on, so that a run which was
    stopped and one which was not have the same weights to the bit. In a `world` of several processes each trains on its share
    of every batch.
    """

    def __init__(
        self,
        network: Transformer,
        process: Process,
        rows: Rows,
        spec: TrainSpec,
        objective: str = "dense",
        compiled: bool = False,
        world: World = ALONE,
    ):
        if len(rows) == 0:
            raise ValueError("the training data has no rows")
        self.network, self.rows, self.spec = network.train(), rows, spec
        self.process = process.to(self.device)
        if objective not in OBJECTIVES:
            raise ValueError(f"the objective is one of {', '.join(OBJECTIVES)}, not {objective!r}")
        if (network.config.vocab, network.config.length) != (process.vocab, process.length):
            raise ValueError("the network and the process must have the same vocabulary and length")
        if objective != "dense":
            require_classifiable(process)
        self.world, self.ours = world, world.rows(spec.batch)
        self.average = Average(network, spec.ema)
        if compiled:  # block by block: one compilation serves all layers
            for block in network.blocks:
                block.compile()
        self.forward = distribute(network, self.average.network, spec.parallel, world)
        self.optimizer = torch.optim.AdamW(
            network.parameters(), lr=0.0, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, fused=True
        )
        self.step, self.seconds = 0, 0.0
        self.loss_of, self.options = _objective(objective, network, spec)

    @property
    def device(self) -> torch.device:
        return self.network.embed.weight.device

    @property
    def sharded(self) -> bool:
        """Whether no process holds all weights."""
        return self.world.size > 1 and self.spec.parallel == "fsdp"

    @property
    def done(self) -> bool:
        return self.progress >= 1

    @property
    def progress(self) -> float:
        """In [0, 1]: by the steps, or by the clock where that is further on."""
        clock = self.seconds / self.spec.seconds if self.spec.seconds is not None else 0.0
        return max(self.step / self.spec.steps, clock)

    def advance(self) -> Tensor:
        """One step; the loss of our rows, a tensor so that reading it may wait."""
        began = time.perf_counter()
        spec = self.spec
        with torch.autocast(self.device.type, torch.bfloat16, enabled=spec.precision == "bf16"):
            loss = self.loss_of(self.forward, self.process, self.batch(), generator=self.draws(), **self.options)
        loss.backward()  # type: ignore[no-untyped-call]
        if spec.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], spec.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, spec, self.progress if spec.seconds is not None else None)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.optimizer.param_groups[0]["params"])
        self.step += 1
        self.seconds += time.perf_counter() - began
        return loss.detach()

    def batch(self) -> Tensor:
        """(B, L) our rows of this step: each epoch goes through all rows in an order of its own."""
        place = self.step * self.spec.batch + np.arange(self.spec.batch)[self.ours]
        epoch, within = np.divmod(place, len(self.rows))
        index = np.empty_like(place)
        for number in np.unique(epoch):
            here = epoch == number
            index[here] = shuffled(within[here], len(self.rows), (self.spec.seed, int(number)))
        read = self.rows[index]
        if read.min() < 0 or read.max() >= self.process.vocab:  # here, where no GPU has to wait for it
            raise ValueError(f"the data holds tokens outside 0..{self.process.vocab - 1}; prepare it again")
        tokens = torch.from_numpy(read)
        return tokens.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tokens

    def draws(self) -> Keyed:
        """This step's random numbers, those of our rows."""
        rows = torch.arange(self.spec.batch, device=self.device)[self.ours]
        return Keyed((self.spec.seed, self.step), rows, self.spec.batch)

    def state(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Tensors by file and by name, and the numbers beside them."""
        moments: dict[str, Tensor] = {}
        for name, parameter in self.network.named_parameters():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                moments[f"{name}/{kind}"] = value
        tensors = {"weights": _parameters(self.network), "average": _parameters(self.average.network), "optimizer": moments}
        return tensors, {"step": self.step, "seconds": self.seconds, "averaged": self.average.updates}

    def load_state(self, tensors: dict[str, dict[str, Tensor]], numbers: dict[str, Any]) -> None:
        """The inverse of `state`."""
        with torch.no_grad():
            for network, part in ((self.network, "weights"), (self.average.network, "average")):
                own = _parameters(network)
                if own.keys() != tensors[part].keys():
                    raise ValueError("the checkpoint is of another network; train into another folder")
                for name, parameter in own.items():
                    parameter.copy_(self._cut(tensors[part][name], parameter))
        for name, parameter in self.network.named_parameters():
            kinds = {
                key.rpartition("/")[2]: self._cut(value, parameter)
                for key, value in tensors["optimizer"].items()
                if key.rpartition("/")[0] == name
            }
            if kinds:
                self.optimizer.state[parameter] = {k: v.clone() if k == "step" else v.to(self.device) for k, v in kinds.items()}
        self.step, self.seconds, self.average.updates = numbers["step"], numbers["seconds"], numbers["averaged"]

    def empty(self, name: str, shape: torch.Size) -> Tensor:
        """Room for a tensor of `state`: for all of it, or for our share if the weights are shared out."""
        own = _parameters(self.network)
        parameter = own.get(name, own.get(name.rpartition("/")[0]))
        if parameter is None or parameter.shape != shape:
            return torch.zeros(shape)
        return torch.zeros_like(parameter, requires_grad=False)

    def _cut(self, value: Tensor, parameter: Tensor) -> Tensor:
        return cut_like(value, parameter) if self.sharded else value


def learning_rate(step: int, spec: TrainSpec, progress: float | None = None) -> float:
    """Linear from 0 to the peak, a cosine down to the final rate, then constant; the cosine by `progress` where given."""
    if step < spec.warmup:
        return spec.rate * step / spec.warmup
    end = spec.decay if spec.decay is not None else spec.steps
    done = min(1.0, (step - spec.warmup) / max(1, end - spec.warmup) if progress is None else progress)
    return spec.final_rate + (spec.rate - spec.final_rate) * 0.5 * (1 + math.cos(math.pi * done))


def _objective(name: str, network: Transformer, spec: TrainSpec) -> tuple[Callable[..., Tensor], dict[str, Any]]:
    """The loss and its options for this network."""
    if name != "dense":
        return OBJECTIVES[name], {"timesteps": spec.timesteps, "check": False}
    options: dict[str, Any] = {"chunked": True, "check": False}
    if network.config.conditioning == "time":  # it can know no order but the schedule's own, and no prompt
        options |= {"any_order": False, "prompts": 0.0}
    return OBJECTIVES[name], options


def _parameters(network: Transformer) -> dict[str, Tensor]:
    return dict(network.named_parameters())
