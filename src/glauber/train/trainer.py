"""One training step after the other, restartable: its state is tensors, its randomness a function of (seed, step, row)."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glauber.conditional import Transformer
from glauber.method import LossOptions, find_method
from glauber.process import Process
from glauber.process.draws import KeyedGenerator, digest
from glauber.recipe import TrainSpec
from glauber.runtime.cuda_graph import CudaGraph
from glauber.train.ema import EMA
from glauber.train.muon import Muon, make_optimizers
from glauber.train.order import shuffled
from glauber.train.parallel import ALONE, World, cut_like, distribute, entire, own_part, part_of_step

UNTOLD = 0.1
"""Share of rows whose class the network is not told, so that it learns "no class", too."""


class Rows(Protocol):
    """Training data: N sequences of L tokens, read by index; where they have classes, `classes(index)` reads those."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: np.ndarray) -> np.ndarray: ...


class Trainer:
    """The network, its average, its optimiser and where they stand.

    `advance` makes one step. `state` and `load_state` carry everything that the next step depends on, so that a run which was
    stopped and one which was not have the same weights, to the bit where the machine adds in the same order both times. In a
    `world` of several processes each trains on its share of every batch.
    """

    def __init__(
        self,
        network: Transformer,
        process: Process,
        rows: Rows,
        spec: TrainSpec,
        method: str = "ggm",
        compiled: bool = False,
        world: World = ALONE,
    ):
        if len(rows) == 0:
            raise ValueError("the training data has no rows")
        self.network, self.rows, self.spec = network.train(), rows, spec
        self.process = process.to(self.device)
        self.method = find_method(method)
        if (network.config.vocab, network.config.length) != (process.vocab, process.length):
            raise ValueError("the network and the process must have the same vocabulary and length")
        self.method.require(process)
        self.method.require_vocabularies(process)
        self.world, self.ours = world, world.rows(spec.batch, spec.grad_accum)
        self.average = EMA(network, spec.ema_decay, spec.ema_warmup)
        if compiled:
            network.compile_parts()
        self.forward = distribute(network, self.average.network, spec.parallel, world)
        self.step, self.seconds = 0, 0.0
        self.graphed = graphed = self.device.type == "cuda" and world.size == 1
        ours, width = torch.arange(spec.batch, device=self.device)[self.ours], self.process.length + self.has_classes
        self.inputs = _Inputs(ours, width, graphed)
        self.optimizers = make_optimizers(network, spec, self.inputs.lr, graphed)
        self.change: Callable[[], Tensor] = CudaGraph(self._change, self.device) if graphed else self._change
        self.latest = torch.zeros(4, dtype=torch.float64, device=self.device)  # see `_note`
        self.reader = ThreadPoolExecutor(1, "reader") if graphed else None
        self.coming: tuple[int, Future[Tensor]] | None = None  # the batch of the next step, which is being read

    @property
    def device(self) -> torch.device:
        return self.network.embed.weight.device

    @property
    def has_classes(self) -> bool:
        """Whether a row of a batch ends in its class."""
        return self.network.config.classes > 0

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

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizers[0].param_groups[0]["lr"])

    def advance(self) -> Tensor:
        """One step; the loss of our rows, a tensor so that reading it may wait."""
        began = time.perf_counter()
        lr = learning_rate(self.step, self.spec, self.progress if self.spec.seconds is not None else None)
        self.inputs.tell(self.batch(), digest((self.spec.seed, self.step)), lr, self.average.next_weight())
        preparing = isinstance(self.change, CudaGraph) and not self.change.ready
        loss = self.change().clone()
        self.step += 1
        if preparing:  # compiling and recording is not training
            torch.cuda.synchronize()
        else:
            self.seconds += time.perf_counter() - began
        return loss

    def rehearse(self) -> None:
        """The work of the next step's gradient, of which nothing stays: to see how long it takes."""
        self.inputs.tell(self.batch(), digest((self.spec.seed, self.step)), 0.0, 0.0)
        self._gradient()
        self.network.zero_grad()

    def _change(self) -> Tensor:
        """Move the weights and their average by one step; the loss. All that differs from step to step is in `inputs`."""
        loss = self._gradient()
        parameters = list(self.network.parameters())
        if self.spec.grad_clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(parameters, self.spec.grad_clip)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        self._note(loss, entire(norm))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.inputs.lr
            optimizer.step()
            optimizer.zero_grad()
        self.average.update(parameters, self.inputs.weight)
        return loss

    def _note(self, loss: Tensor, norm: Tensor) -> None:
        """Keep the step's number, loss, gradient norm and rate; those of the first step that is not finite stay.

        On the device, and in place: no GPU is waited for, and a recorded step does it, too.
        """
        lr = torch.as_tensor(self.inputs.lr, dtype=torch.float64, device=self.device)
        now = torch.stack([self.latest[0] + 1, loss.double(), norm.double(), lr])
        self.latest.copy_(torch.where(self.latest.isfinite().all(), now, self.latest))

    def trouble(self, state: bool = False) -> tuple[int, str] | None:
        """The first step whose loss or gradient was not finite, and what is wrong, if there was one. Waits for a GPU.

        With `state`, what a checkpoint would hold is looked at, too: a step may leave weights that are too large for a float.
        """
        step, loss, norm, lr = self.latest.tolist()
        rated = f"of step {step:.0f} is {{}}, at a learning rate of {lr:.3g}"
        if not math.isfinite(loss):
            return int(step), f"the loss {rated.format(loss)}"
        if not math.isfinite(norm):
            return int(step), f"the norm of the gradient {rated.format(norm)}"
        if state:
            tensors = [own_part(tensor) for named in self.state()[0].values() for tensor in named.values()]
            if not math.isfinite(torch.nn.utils.get_total_norm(tensors, torch.inf).item()):
                return int(step), f"the weights after step {step:.0f} are not finite, at a learning rate of {lr:.3g}"
        return None

    def _gradient(self) -> Tensor:
        """Add the gradient of our rows' loss to that of each weight, part by part; the loss, the mean of the parts' losses."""
        number, losses = self.spec.grad_accum, []
        parts = zip(self.inputs.tokens.chunk(number), self.inputs.rows.chunk(number), strict=True)
        for k, (tokens, rows) in enumerate(parts, start=1):
            draws = KeyedGenerator(self.inputs.key, rows, self.spec.batch)
            how = LossOptions(self.spec, self.network.config, check=False, generator=draws)
            forward: Callable[..., Tensor] = self.forward
            if self.has_classes:
                forward, tokens = self._telling(tokens[:, -1], draws), tokens[:, :-1]
            with part_of_step(self.forward, last=k == number):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.spec.precision == "bf16"):
                    loss = self.method.loss(forward, self.process, tokens, how) / number
                loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _telling(self, classes: Tensor, draws: KeyedGenerator) -> Callable[..., Tensor]:
        """The network, told the class (B,) of each row but for an UNTOLD share of them; a row may be asked about repeatedly."""
        untold = draws.uniform((len(classes), 1))[:, 0] < UNTOLD
        told = torch.where(untold, self.network.config.classes, classes)

        def forward(x: Tensor, *inputs: Any, **options: Any) -> Tensor:
            answer: Tensor = self.forward(x, *inputs, class_=told.repeat_interleave(len(x) // len(told)), **options)
            return answer

        return forward

    def batch(self) -> Tensor:
        """(B, L) our rows of this step, each followed by its class if it has one. For a GPU the next ones are read ahead."""
        if self.reader is None:
            return self._read(self.step)
        known = self.coming is not None and self.coming[0] == self.step
        tokens = self.coming[1].result() if self.coming is not None and known else self._read(self.step)
        self.coming = self.step + 1, self.reader.submit(self._read, self.step + 1)
        return tokens

    def _read(self, step: int) -> Tensor:
        """Each epoch goes through all rows in an order of its own."""
        place = step * self.spec.batch + np.arange(self.spec.batch)[self.ours]
        epoch, within = np.divmod(place, len(self.rows))
        index = np.empty_like(place)
        for number in np.unique(epoch):
            here = epoch == number
            index[here] = shuffled(within[here], len(self.rows), (self.spec.seed, int(number)))
        read = self.rows[index]
        if read.min() < 0 or read.max() >= self.process.vocab:  # here, where no GPU has to wait for it
            raise ValueError(f"the data holds tokens outside 0..{self.process.vocab - 1}; prepare it again")
        if self.has_classes:
            classes = self.rows.classes(index)  # type: ignore[attr-defined]
            if classes.min() < 0 or classes.max() >= self.network.config.classes:
                raise ValueError(f"the data holds classes outside 0..{self.network.config.classes - 1}; prepare it again")
            read = np.concatenate([read, classes[:, None]], axis=1)
        tokens = torch.from_numpy(read)
        return tokens.pin_memory() if self.device.type == "cuda" else tokens

    def state(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Tensors by file and by name, and the numbers beside them."""
        moments: dict[str, Tensor] = {}
        for name, parameter in self.network.named_parameters():
            for kind, value in self._owner(parameter).state.get(parameter, {}).items():
                moments[f"{name}/{kind}"] = value
        tensors = {"weights": _parameters(self.network), "average": _parameters(self.average.network), "optimizer": moments}
        return tensors, {"step": self.step, "seconds": self.seconds, "averaged": self.average.updates}

    def load_state(self, tensors: dict[str, dict[str, Tensor]], numbers: dict[str, Any]) -> None:
        """The inverse of `state`."""
        if not {"step", "seconds", "averaged"} <= numbers.keys() or not {"weights", "average", "optimizer"} <= tensors.keys():
            raise ValueError("the checkpoint lacks a part of a run's state; train into another folder")
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
                if ("momentum" in kinds) != isinstance(self._owner(parameter), Muon):
                    raise ValueError("the checkpoint is of another optimiser; train into another folder")
                self._owner(parameter).state[parameter] = {k: v.to(self.device, copy=k == "step") for k, v in kinds.items()}
        if self.graphed:
            self.change = CudaGraph(self._change, self.device)
        self.step, self.seconds, self.average.updates = numbers["step"], numbers["seconds"], numbers["averaged"]
        self.latest.zero_()[0] = self.step

    def _owner(self, parameter: Tensor) -> torch.optim.Optimizer:
        """The optimiser that moves it."""
        mine = (each for each in self.optimizers for group in each.param_groups if any(p is parameter for p in group["params"]))
        return next(mine)

    def empty(self, name: str, shape: torch.Size) -> Tensor:
        """Room for a tensor of `state`: for all of it, or for our share if the weights are shared out."""
        own = _parameters(self.network)
        parameter = own.get(name, own.get(name.rpartition("/")[0]))
        if parameter is None or parameter.shape != shape:
            return torch.zeros(shape)
        return torch.zeros_like(parameter, requires_grad=False)

    def _cut(self, value: Tensor, parameter: Tensor) -> Tensor:
        return cut_like(value, parameter) if self.sharded else value


class _Inputs:
    """All that differs from one step to the next; where a step is recorded and replayed, in tensors that stay in place."""

    def __init__(self, rows: Tensor, width: int, graphed: bool):
        self.rows = rows  # (B,) which rows of the whole batch are ours
        self.tokens = rows.new_zeros(len(rows), width)
        self.key = rows.new_zeros(())  # of the random numbers
        self.lr: float | Tensor = torch.zeros((), device=rows.device) if graphed else 0.0
        self.weight: float | Tensor = torch.zeros((), device=rows.device) if graphed else 0.0  # of the average's step

    def tell(self, tokens: Tensor, key: int, lr: float, weight: float) -> None:
        self.key.fill_(key)
        if isinstance(self.lr, Tensor) and isinstance(self.weight, Tensor):
            self.tokens.copy_(tokens, non_blocking=True)
            self.lr.fill_(lr)
            self.weight.fill_(weight)
        else:
            self.tokens, self.lr, self.weight = tokens.to(self.rows.device), lr, weight


def learning_rate(step: int, spec: TrainSpec, progress: float | None = None) -> float:
    """Linear from 0 to the peak, a cosine down to the final rate, then constant; the cosine by `progress` where given."""
    if step < spec.warmup:
        return spec.lr * step / spec.warmup
    end = spec.decay if spec.decay is not None else spec.steps
    done = min(1.0, (step - spec.warmup) / max(1, end - spec.warmup) if progress is None else progress)
    return spec.min_lr + (spec.lr - spec.min_lr) * 0.5 * (1 + math.cos(math.pi * done))


def _parameters(network: Transformer) -> dict[str, Tensor]:
    return dict(network.named_parameters())
