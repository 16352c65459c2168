"""Several processes, one run: who trains on which rows, and what all must agree on. The network knows nothing of it.

`torchrun` starts the processes. The losses are those of one process at the same batch, since all randomness is a function of
(seed, step, row of the whole batch), and the loss of a batch is the mean of the losses of its equal parts.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from glauber.conditional import Transformer
from glauber.method.plaid_network import Plaid

Result = TypeVar("Result")


@dataclass(frozen=True)
class World:
    """The processes of a run, as one of them sees them."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """The rank on this machine, which is the number of the GPU."""

    @property
    def first(self) -> bool:
        """Whether this is the one that prints, logs and renames."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda") if self.size == 1 else torch.device("cuda", self.local)

    def rows(self, batch: int, parts: int = 1) -> slice:
        """Which rows of the whole batch are ours; they can be cut into so many equal parts."""
        if batch % self.size:
            raise ValueError(f"train.batch is {batch}, which {self.size} processes cannot share equally; set it to a multiple")
        share = batch // self.size
        if share % parts:
            whose = "a step" if self.size == 1 else "each process"
            raise ValueError(
                f"train.grad_accum is {parts}, which does not divide the {share} rows of {whose}; "
                f"set train.batch to a multiple of {parts * self.size}"
            )
        return slice(self.rank * share, (self.rank + 1) * share)

    def mean(self, value: Tensor) -> Tensor:
        """The mean over the processes."""
        if self.size == 1:
            return value
        total = value.detach().clone()
        dist.all_reduce(total)
        return total / self.size

    def agree(self, seconds: float, stop: bool) -> tuple[float, bool]:
        """The slowest clock, and whether anyone wants to stop. On the CPU, so that no GPU waits."""
        if self.size == 1:
            return seconds, stop
        most = torch.tensor([seconds, stop], dtype=torch.float64)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return most[0].item(), bool(most[1])

    def gather(self, thing: Result) -> list[Result]:
        """Everyone's thing, by rank."""
        if self.size == 1:
            return [thing]
        things: list[Any] = [None] * self.size
        dist.all_gather_object(things, thing)
        return things

    def together(self, do: Callable[[], Result]) -> Result:
        """Everyone does it, and goes on only if all succeeded; one alone raises, the others leave without a word."""
        if self.size == 1:
            return do()
        error: Exception | None = None
        try:
            result = do()
        except (ValueError, ImportError, OSError) as caught:
            error = caught
        failed = [rank for rank, bad in enumerate(self.gather(error is not None)) if bad]
        if not failed:
            return result
        if error is not None and failed[0] == self.rank:
            raise error
        raise SystemExit(2)


ALONE = World()


@contextmanager
def processes() -> Iterator[World]:
    """Join the others that `torchrun` started, if it did."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    world = World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))
    if world.device.type == "cuda":
        torch.cuda.set_device(world.device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if world.device.type == "cuda" else "gloo")
    yield world
    dist.destroy_process_group()  # not after an error: others may still wait for us, and torchrun will end them


def distribute(network: Transformer, average: Transformer, kind: str, world: World) -> nn.Module:
    """What to call instead of the network, so that its gradients are those of the whole batch.

    ddp: every process holds all weights. fsdp: each holds its share of every weight, of the average and, since the optimiser
    is made afterwards, of its moments; a block's weights are brought together while it computes.
    """
    if world.size == 1:
        return network
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    from torch.distributed.fsdp import fully_shard

    for each in (network, average):
        for block in each.blocks:
            fully_shard(block)
    fully_shard(network)
    fully_shard(average, reshard_after_forward=True)  # no backward pass follows, which would do it
    return network


def part_of_step(network: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Around the forward and backward pass of a part of a batch: DDP averages gradients over the processes at the last only.

    FSDP2 averages those of every part, since keeping them until the last would need the room of all weights.
    """
    if isinstance(network, nn.parallel.DistributedDataParallel) and not last:
        return network.no_sync()
    return nullcontext()


def cut_like(value: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor cut as the parameter is; one that is in pieces already, or of another shape, stays."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(value, DTensor) or not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    value = value.to(parameter.device)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)


def entire(value: Tensor) -> Tensor:
    """A number that the processes may hold in parts, whole."""
    full: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return full


def own_part(value: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    own: Tensor = value.to_local() if hasattr(value, "to_local") else value
    return own.detach()


def whole(network: Transformer, world: World) -> Transformer:
    """The network in one piece, on the CPU of the first process; the others help."""
    if not hasattr(next(network.parameters()), "full_tensor"):
        return network.cpu()
    full = (Plaid if isinstance(network, Plaid) else Transformer)(network.config) if world.first else None
    for name, parameter in network.named_parameters():
        value: Tensor = parameter.full_tensor()  # type: ignore[attr-defined]
        if full is not None:
            with torch.no_grad():
                full.get_parameter(name).copy_(value)
    return full if full is not None else network


class Shared:
    """A network whose rows are shared among the processes: everyone asks the same, and everyone gets all the answers.

    For a bound or a chain whose random numbers are the same everywhere; the result does not depend on the number of processes.
    """

    def __init__(self, network: Callable[..., Tensor], world: World):
        self.network, self.world = network, world

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self.world.size == 1:
            return self.network(*inputs)
        rows = len(inputs[0])
        share = -(-rows // self.world.size)
        ours = (self.world.rank * share + torch.arange(share, device=inputs[0].device)) % rows  # the last may do some again
        answer = self.network(*(value[ours] for value in inputs)).contiguous()
        parts = [torch.empty_like(answer) for _ in range(self.world.size)]
        dist.all_gather(parts, answer)
        return torch.cat(parts)[:rows]
