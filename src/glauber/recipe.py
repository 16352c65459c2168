"""All that a training run is made of, as frozen values; `glauber.train.recipes` has the ones with names."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from glauber.conditional import TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule

OPTIMIZERS = ("adamw", "muon")
PARALLEL = ("ddp", "fsdp")
MOST_SAMPLES = 1000


@dataclass(frozen=True)
class ProcessSpec:
    """The forward process, but for the counts that a unigram law needs."""

    sweeps: int = 4
    """K, visits per site; the chain has T = K · L steps."""
    keep: float | str | tuple[float, ...] = 0.5
    last_keep: float | None = None
    """κ of the last sweep; 0 makes X_T pure noise."""
    order: str = "right-to-left"
    noise: str = "uniform"
    """"uniform" or "unigram"."""
    smoothing: float = 1.0
    """Added to each count of a unigram law."""

    def __post_init__(self) -> None:
        if self.noise not in ("uniform", "unigram"):
            raise ValueError(f"process.noise is uniform or unigram, not {self.noise!r}")

    def build(
        self, vocab: int, length: int, counts: Sequence[float] | Tensor | None = None, allowed: Tensor | None = None
    ) -> Process:
        """The process over `vocab` tokens and `length` sites; `counts` of the training tokens for a unigram law.

        allowed: (L, V) bool, the tokens that each site may hold; all of them if None.
        """
        if self.noise == "uniform":
            noise = NoiseLaw.uniform(vocab)
        elif counts is None:
            raise ValueError("a unigram noise law needs the counts of the training tokens")
        else:
            noise = NoiseLaw.unigram(counts, self.smoothing)
        schedule = Schedule.round_robin(length, self.sweeps * length, self.keep, self.order, last_keep=self.last_keep)
        return Process(schedule, NoiseLaw(noise.probs, allowed))


@dataclass(frozen=True)
class TrainSpec:
    """The optimiser's settings: linear warm-up from 0, cosine decay, then constant."""

    steps: int
    batch: int
    """Sequences per step."""
    grad_accum: int = 1
    """Equal parts that the batch of each process is cut into, one after the other: less memory, the same gradient."""
    timesteps: int = 1
    """Times drawn per sequence, for the binary and marginal losses."""
    clean_fraction: float = 0.25
    """Share of rows in which some sites are never noised, for the method ggm: what filling gaps needs."""
    marked_fraction: float = 0.0
    """Share of rows whose noise is marked, for the method ggm (identity 9)."""
    causal_every: int = 0
    """With a causal network and the method ggm, every so-many-th row is learned from left to right; 0 for none."""
    fim: float = 0.0
    """Share of rows learned with a middle that comes last, for the method ar: what filling gaps needs there."""
    fim_end: int | None = None
    """The token that ends such a middle: the codec's end of text, which is put in."""
    optimizer: str = "adamw"
    """"adamw", or "muon" for the blocks' matrices and adamw for the other weights, at the same rate and decay."""
    lr: float = 1e-3
    """Peak learning rate."""
    min_lr: float = 1e-6
    warmup: int = 100
    decay: int | None = None
    """Step at which the cosine reaches `final_rate`; the last step if not given."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip: float | None = None
    """Largest gradient norm; none for no clipping."""
    ema_decay: float = 0.999
    ema_warmup: bool = True
    """Average over fewer steps at the beginning, so that the random start is soon forgotten."""
    precision: str = "fp32"
    """"fp32" or "bf16" (weights and optimiser stay fp32)."""
    seconds: float | None = None
    """Stop after this time, and decay the rate by the clock: for comparisons at equal time. Compiling does not count."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    evaluate_every: int = 1000
    """Steps between validation bounds."""
    valid_rows: int = 64
    """Rows that a validation bound is taken on, unless there are fewer."""
    patience: int = 0
    """Validations in a row without a better bound, after which training stops; the model then has the weights of the best one.
    0: the weights are those of the last step, however the bound went."""
    samples: int = 4
    """Drawn at each validation, for people to look at; 0 for none."""
    tensorboard: bool = False
    """Write for TensorBoard, too; needs the extra `track`."""
    seed: int = 0
    parallel: str = "ddp"
    """Under `torchrun`: "ddp", every process holds all weights, or "fsdp", each holds its share of them."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.timesteps, self.checkpoint_every, self.keep_checkpoints, self.evaluate_every) < 1:
            raise ValueError(
                "train.steps, batch, timesteps, checkpoint_every, keep_checkpoints and evaluate_every are at least 1"
            )
        if self.grad_accum < 1:
            raise ValueError(f"train.grad_accum is at least 1, not {self.grad_accum}")
        if self.causal_every == 1 or self.causal_every < 0:
            raise ValueError(f"train.causal_every is 0, or a number above 1, not {self.causal_every}")
        if not (0 <= self.clean_fraction <= 1 and 0 <= self.marked_fraction <= 1):
            raise ValueError(
                "train.clean_fraction and train.marked_fraction are shares of rows, in [0, 1], "
                f"not {self.clean_fraction} and {self.marked_fraction}"
            )
        if not 0 <= self.fim <= 1:
            raise ValueError(f"train.fim is a share of rows, in [0, 1], not {self.fim}")
        if self.valid_rows < 1:
            raise ValueError(f"train.valid_rows is at least 1, not {self.valid_rows}")
        if self.patience < 0:
            raise ValueError(f"train.patience is 0 or more, not {self.patience}")
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise ValueError(f"train.samples is 0 to {MOST_SAMPLES:,}, for people to look at, not {self.samples:,}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"train.optimizer is {' or '.join(OPTIMIZERS)}, not {self.optimizer!r}")
        if self.precision not in ("fp32", "bf16"):
            raise ValueError(f"train.precision is fp32 or bf16, not {self.precision!r}")
        if self.parallel not in PARALLEL:
            raise ValueError(f"train.parallel is {' or '.join(PARALLEL)}, not {self.parallel!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError("train.seconds must be above 0")
        for name in ("lr", "min_lr", "warmup", "decay", "eps", "weight_decay"):
            if (value := getattr(self, name)) is not None and not value >= 0:
                raise ValueError(f"train.{name} is 0 or more, not {value}")
        if self.grad_clip is not None and not self.grad_clip > 0:
            raise ValueError(f"train.grad_clip is above 0, or none for no clipping, not {self.grad_clip}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"train.betas lie in [0, 1), not {self.betas}")
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"train.ema_decay lies in [0, 1), not {self.ema_decay}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"train.seed is 0 or more, and below 2^63, not {self.seed}")


@dataclass(frozen=True)
class Recipe:
    """One training run and how its model is sampled."""

    name: str
    about: str
    tokens: str
    """What the tokens are, for people."""
    network: TransformerConfig
    process: ProcessSpec
    train: TrainSpec
    method: str = "ggm"
    """By its name in `glauber.method`."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Options of `run_chain`; a `ban` of "end" is the codec's end of text, whichever token that is."""

    def with_end(self, end: int | None) -> "Recipe":
        """The recipe for a codec with this end of text, if it has one."""
        ends = self if not self.train.fim else replace(self, train=replace(self.train, fim_end=end))
        if self.sampling.get("ban") != "end":
            return ends
        return replace(ends, sampling=self.sampling | {"ban": [] if end is None else [end]})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
