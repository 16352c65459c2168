"""Recipes: all that a training run is made of, as frozen values. A recipe is a function that returns one."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from glauber.baseline import DIFFUSIONS, LOSSES, METHODS
from glauber.conditional import TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule
from glauber.train.parallel import KINDS

OPTIMIZERS = ("adamw", "muon")


@dataclass(frozen=True)
class ProcessSpec:
    """The forward process, but for the counts that a unigram law needs."""

    sweeps: int = 4
    """K, visits per site; the chain has T = K · L steps."""
    keep: float | str | tuple[float, ...] = 0.5
    last_keep: float | None = None
    """κ of the last sweep; 0 makes X_T pure noise."""
    order: str = "left"
    noise: str = "uniform"
    """"uniform" or "unigram"."""
    smoothing: float = 1.0
    """Added to each count of a unigram law."""

    def __post_init__(self) -> None:
        if self.noise not in ("uniform", "unigram"):
            raise ValueError(f"process.noise is uniform or unigram, not {self.noise!r}")

    def build(self, vocab: int, length: int, counts: Sequence[float] | Tensor | None = None) -> Process:
        """The process over `vocab` tokens and `length` sites; `counts` of the training tokens for a unigram law."""
        if self.noise == "uniform":
            noise = NoiseLaw.uniform(vocab)
        elif counts is None:
            raise ValueError("a unigram noise law needs the counts of the training tokens")
        else:
            noise = NoiseLaw.unigram(counts, self.smoothing)
        schedule = Schedule.round_robin(length, self.sweeps * length, self.keep, self.order, last_keep=self.last_keep)
        return Process(schedule, noise)


@dataclass(frozen=True)
class TrainSpec:
    """The optimiser's settings: linear warm-up from 0, cosine decay, then constant."""

    steps: int
    batch: int
    """Sequences per step."""
    accumulate: int = 1
    """Equal parts that the batch of each process is cut into, one after the other: less memory, the same gradient."""
    timesteps: int = 1
    """Times drawn per sequence, for the binary and marginal losses."""
    prompts: float = 0.25
    """Share of rows in which some sites are never noised, for the dense loss: what filling gaps needs."""
    labels: float = 0.0
    """Share of rows whose noise is labelled, for the dense loss (identity 9)."""
    read_every: int = 0
    """With a network that reads and the dense loss, every so-many-th row is learned in reading order; 0 for none."""
    optimizer: str = "adamw"
    """"adamw", or "muon" for the blocks' matrices and adamw for the other weights, at the same rate and decay."""
    rate: float = 1e-3
    """Peak learning rate."""
    final_rate: float = 1e-6
    warmup: int = 100
    decay: int | None = None
    """Step at which the cosine reaches `final_rate`; the last step if not given."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    """Largest gradient norm; none for no clipping."""
    ema: float = 0.999
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
        if self.accumulate < 1:
            raise ValueError(f"train.accumulate is at least 1, not {self.accumulate}")
        if self.read_every == 1 or self.read_every < 0:
            raise ValueError(f"train.read_every is 0, or a number above 1, not {self.read_every}")
        if not (0 <= self.prompts <= 1 and 0 <= self.labels <= 1):
            raise ValueError(f"train.prompts and labels are shares of rows, in [0, 1], not {self.prompts} and {self.labels}")
        if self.samples < 0:
            raise ValueError(f"train.samples is 0 or more, not {self.samples}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"train.optimizer is {' or '.join(OPTIMIZERS)}, not {self.optimizer!r}")
        if self.precision not in ("fp32", "bf16"):
            raise ValueError(f"train.precision is fp32 or bf16, not {self.precision!r}")
        if self.parallel not in KINDS:
            raise ValueError(f"train.parallel is {' or '.join(KINDS)}, not {self.parallel!r}")
        if self.seconds is not None and self.seconds <= 0:
            raise ValueError("train.seconds must be above 0")
        for name in ("rate", "final_rate", "warmup", "decay", "eps", "weight_decay"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"train.{name} is 0 or more, not {value}")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"train.clip is above 0, or none for no clipping, not {self.clip}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"train.betas lie in [0, 1), not {self.betas}")
        if not 0 <= self.ema < 1:
            raise ValueError(f"train.ema lies in [0, 1), not {self.ema}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"train.seed is 0 or more, and below 2^63, not {self.seed}")


OWN_OBJECTIVE = {name: method.objective for name, method in METHODS.items() if name != "ggm"}
"""Of the methods that have only one."""


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
    """"ggm"; or on the same network and data another one, see `glauber.baseline`: "ar", autoregressive, "mlm", Gibbs sampling
    with a masked language model, or one of the diffusions "mdlm", "sedd", "sedd-uniform", "udlm" and "plaid"."""
    objective: str = "dense"
    sampling: dict[str, Any] = field(default_factory=dict)
    """Options of `run_chain`; a `ban` of "end" is the codec's end of text, whichever token that is."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        if self.objective not in LOSSES:
            raise ValueError(f"objective is one of {', '.join(LOSSES)}, not {self.objective!r}")

    def by_method(self) -> "Recipe":
        """The recipe with the objective and the chain that its method has."""
        if self.method == "ar":
            process = replace(self.process, sweeps=1, keep=0.0, last_keep=None, order="right")
            return replace(self, objective=OWN_OBJECTIVE["ar"], process=process, network=replace(self.network, reads=True))
        if self.method == "mlm":
            process = replace(self.process, keep=1.0, last_keep=None, order="right", noise="uniform")
            return replace(self, objective=OWN_OBJECTIVE["mlm"], process=process, network=replace(self.network, reads=False))
        if (own := METHODS[self.method].objective) in DIFFUSIONS:  # their time is not the schedule's, and their noise their own
            process = replace(self.process, sweeps=1, keep=0.0, last_keep=None, noise="uniform")
            kept = {name: value for name, value in self.sampling.items() if name == "ban"}
            return replace(self, objective=own, process=process, network=replace(self.network, reads=False), sampling=kept)
        return self

    def with_end(self, end: int | None) -> "Recipe":
        """The recipe for a codec with this end of text, if it has one."""
        if self.sampling.get("ban") != "end":
            return self
        return replace(self, sampling=self.sampling | {"ban": [] if end is None else [end]})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def tiny() -> Recipe:
    """Fits any data; seconds on a CPU."""
    return Recipe(
        name="tiny",
        about="a network that fits any data and trains in seconds on a CPU: to see that all is in place",
        tokens="those of the data",
        network=TransformerConfig(vocab=2, length=1, width=32, layers=2, heads=2),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(steps=200, batch=16, rate=3e-3, warmup=20, clip=1.0, ema=0.98, checkpoint_every=50, evaluate_every=100),
    )


def small() -> Recipe:
    """Fits any data; minutes on a laptop's CPU. Half of the rows are read: that chain is the first to be learned."""
    return Recipe(
        name="small",
        about="a network that fits any data; about five minutes on two CPU cores, for rows of 256 tokens",
        tokens="those of the data",
        network=TransformerConfig(vocab=2, length=1, width=96, layers=4, heads=3, cond=32, reads=True),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(
            steps=3000,
            batch=8,
            prompts=0.5,
            labels=0.3,
            read_every=2,
            optimizer="muon",
            rate=1e-2,
            final_rate=1e-5,
            warmup=50,
            weight_decay=0.1,
            clip=1.0,
            ema=0.99,
            checkpoint_every=250,
        ),
    )


def digits() -> Recipe:
    """8×8 digits cut into 2×2 patches: a minute on two CPU cores."""
    return Recipe(
        name="digits",
        about="scikit-learn's 8×8 digits, cut into 2×2 patches; trains on two CPU cores while you wait",
        tokens="64 k-means codes of 2×2 patches",
        network=TransformerConfig(vocab=64, length=16, width=96, layers=3, heads=4, grid=(4, 4), absolute=True),
        process=ProcessSpec(keep="linear"),
        train=TrainSpec(steps=2500, batch=64, rate=2e-3, warmup=100, weight_decay=0.01, clip=1.0, ema=0.998),
    )


def novels() -> Recipe:
    """The bundled language model: half of the rows in any order, looking both ways, half read from left to right."""
    return Recipe(
        name="novels",
        about="the language model in the box: 19th-century novels, a BPE of 4096, rows of 256; minutes on one H200",
        tokens="those of the data; 4096 word pieces in the bundled one",
        network=TransformerConfig(vocab=4096, length=256, width=384, layers=8, heads=6, cond=64, reads=True),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(
            steps=5000,
            batch=512,
            prompts=0.5,
            labels=0.3,
            read_every=2,
            rate=2e-3,
            final_rate=1e-5,
            warmup=200,
            weight_decay=0.1,
            clip=1.0,
            precision="bf16",
        ),
    )


def _images(name: str, about: str, tokens: str, network: TransformerConfig, steps: int, batch: int) -> Recipe:
    """Images as a grid of codes: any order, any hole, half of the rows with some sites given; with a network that reads, half
    of the rows are read, line by line."""
    return Recipe(
        name=name,
        about=about,
        tokens=tokens,
        network=network,
        process=ProcessSpec(keep="linear"),
        train=TrainSpec(
            steps=steps,
            batch=batch,
            prompts=0.5,
            labels=0.3 if network.reads else 0.0,
            read_every=2 if network.reads else 0,
            rate=2e-3 if network.reads else 1e-3,
            final_rate=1e-5,
            warmup=500,
            weight_decay=0.1,
            clip=1.0,
            precision="bf16",
        ),
    )


def fashion() -> Recipe:
    """Fashion-MNIST: 28×28, grey, 60,000 images."""
    return _images(
        name="fashion",
        about="Fashion-MNIST, 28×28 grey images as 14×14 tokens; for a minute or more on one H200",
        tokens="256 codes of a VQ codec that shrinks by 2",
        network=TransformerConfig(256, 196, width=256, layers=7, heads=4, grid=(14, 14), absolute=True, cond=64, reads=True),
        steps=6_000,
        batch=320,
    )


def emoji() -> Recipe:
    """Emoji at 64 pixels: a few thousand images, so a small network and not too long."""
    return _images(
        name="emoji",
        about="emoji of 64×64 pixels as 8×8 tokens; sized for minutes on one H200, not yet trained there",
        tokens="512 codes of a VQ codec that shrinks by 8",
        network=TransformerConfig(vocab=512, length=64, width=256, layers=6, heads=4, grid=(8, 8), absolute=True),
        steps=4_000,
        batch=256,
    )


def faces() -> Recipe:
    """Faces at 64 pixels: tens of thousands of images."""
    return _images(
        name="faces",
        about="faces of 64×64 pixels as 16×16 tokens; for two minutes or more on one H200",
        tokens="1024 codes of a VQ codec that shrinks by 4",
        network=TransformerConfig(1024, 256, width=384, layers=8, heads=6, grid=(16, 16), absolute=True, cond=64, reads=True),
        steps=4_000,
        batch=256,
    )


POSITIONS = "rotary positions in two dimensions are ours, since the paper names none"


def _paper(vocab: int, grid: tuple[int, int] | None, width: int = 1024, heads: int = 16) -> TransformerConfig:
    return TransformerConfig(vocab, 1024, width, layers=24, heads=heads, conditioning="time", grid=grid)


def paper_owt() -> Recipe:
    """The paper's language model (section 4.1, appendix I.1)."""
    return Recipe(
        name="paper-owt",
        about="the paper's language model on OpenWebText: packed sequences, Algorithm 1, scalar time",
        tokens="T5's 32100 word pieces",
        network=_paper(32100, None),
        process=ProcessSpec(sweeps=4, keep=0.5, noise="unigram"),
        objective="binary",
        train=TrainSpec(
            steps=2_000_000,
            batch=64,
            timesteps=32,
            rate=1e-4,
            final_rate=1e-6,
            warmup=8000,
            decay=2_000_000,
            ema=0.9999,
            ema_warmup=False,
        ),
        sampling={"top_p": 0.8, "ban": "end", "truncate": "mixture"},
    )


def paper_celebahq() -> Recipe:
    """The paper's image model on CelebA-HQ (section 4.2, appendix I.2)."""
    return Recipe(
        name="paper-celebahq",
        about="the paper's model of 256×256 faces, CelebA-HQ: a VQGAN's 32×32 codes, Algorithm 1, scalar time; " + POSITIONS,
        tokens="8192 codes of a VQGAN that shrinks by 8",
        network=_paper(8192, (32, 32)),
        process=ProcessSpec(sweeps=4, keep=0.5, noise="uniform"),
        objective="binary",
        train=TrainSpec(
            steps=1_450_000,
            batch=2048,
            rate=1e-4,
            final_rate=1e-6,
            warmup=8000,
            decay=1_000_000,
            ema=0.9999,
            ema_warmup=False,
        ),
        sampling={"top_p": 0.9, "temperature": [1.05, 1.0], "truncate": "mixture"},
    )


def paper_ffhq() -> Recipe:
    """The paper's image model on FFHQ (section 4.2, appendix I.2)."""
    base = paper_celebahq()
    return replace(
        base,
        name="paper-ffhq",
        about="the paper's model of 256×256 faces, FFHQ: a VQGAN's 32×32 codes, Algorithm 1, scalar time; " + POSITIONS,
        train=replace(base.train, steps=3_000_000, decay=3_000_000),
        sampling={"top_p": 0.9, "truncate": "mixture"},
    )


def paper_800m() -> Recipe:
    """The paper's larger language model (appendix K)."""
    base = paper_owt()
    return replace(
        base,
        name="paper-800m",
        about="the paper's scaled-up language model on RedPajama; it tells only the size, so the shape and the rest are ours",
        network=_paper(32100, None, width=1536, heads=24),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "tiny": tiny,
    "small": small,
    "digits": digits,
    "novels": novels,
    "fashion": fashion,
    "emoji": emoji,
    "faces": faces,
    "paper-owt": paper_owt,
    "paper-celebahq": paper_celebahq,
    "paper-ffhq": paper_ffhq,
    "paper-800m": paper_800m,
}


def recipe(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? (" if near else "("
        raise ValueError(f"unknown recipe {name!r}; {hint}there are {', '.join(RECIPES)})")
    return RECIPES[name]()
