"""Recipes by their names. A recipe is a function that returns one."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glauber.conditional import TransformerConfig
from glauber.recipe import ProcessSpec, Recipe, TrainSpec

MIXED: dict[str, Any] = {
    "clean_fraction": 0.5,
    "marked_fraction": 0.3,
    "causal_every": 2,
    "min_lr": 1e-5,
    "weight_decay": 0.1,
    "grad_clip": 1.0,
}
"""How a causal network learns both ways to sample: half of the rows are noised in any order, half are autoregressive."""
PAPER: dict[str, Any] = {"lr": 1e-4, "min_lr": 1e-6, "warmup": 8000, "ema_decay": 0.9999, "ema_warmup": False}
"""What the paper tells of the training of all its models."""


def tiny() -> Recipe:
    """Fits any data; seconds on a CPU."""
    return Recipe(
        name="tiny",
        about="a network that fits any data and trains in seconds on a CPU: to see that all is in place",
        tokens="those of the data",
        network=TransformerConfig(vocab=2, length=1, width=32, layers=2, heads=2),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(
            steps=200, batch=16, lr=3e-3, warmup=20, grad_clip=1.0, ema_decay=0.98, checkpoint_every=50, evaluate_every=100
        ),
    )


def small() -> Recipe:
    """Fits any data; minutes on a laptop's CPU. Autoregressive samples are the first to become good."""
    base = novels()
    return replace(
        base,
        name="small",
        about="a network that fits any data; about five minutes on two CPU cores, for rows of 256 tokens",
        tokens="those of the data",
        network=replace(base.network, vocab=2, length=1, width=96, layers=4, heads=3, cond_dim=32),
        train=TrainSpec(
            steps=3000, batch=8, optimizer="muon", lr=1e-2, warmup=50, ema_decay=0.99, checkpoint_every=250, **MIXED
        ),
    )


def digits() -> Recipe:
    """8×8 digits cut into 2×2 patches: a minute on two CPU cores."""
    return Recipe(
        name="digits",
        about="scikit-learn's 8×8 digits, cut into 2×2 patches; trains on two CPU cores while you wait",
        tokens="64 k-means codes of 2×2 patches",
        network=TransformerConfig(vocab=64, length=16, width=96, layers=3, heads=4, grid=(4, 4), learned_positions=True),
        process=ProcessSpec(keep="linear"),
        train=TrainSpec(steps=2500, batch=64, lr=2e-3, warmup=100, weight_decay=0.01, grad_clip=1.0, ema_decay=0.998),
    )


def novels() -> Recipe:
    """The bundled language model."""
    return Recipe(
        name="novels",
        about="the language model in the box: 19th-century novels, a BPE of 4096, rows of 256; minutes on one H200",
        tokens="those of the data; 4096 word pieces in the bundled one",
        network=TransformerConfig(vocab=4096, length=256, width=384, layers=8, heads=6, cond_dim=64, causal=True),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(steps=5000, batch=512, lr=2e-3, warmup=200, precision="bf16", **MIXED),
    )


def base() -> Recipe:
    """Fits any data; minutes to an hour on one GPU."""
    return replace(
        novels(),
        name="base",
        about="a network that fits any data, the shape of the language model in the box; minutes to an hour on one GPU",
        tokens="those of the data",
    )


def large() -> Recipe:
    """Fits any data; many GPUs. Not tried: the paper's width and layers, with what the smaller recipes found."""
    plan = base()
    return replace(
        plan,
        name="large",
        about="a network that fits any data, as wide and deep as the paper's; for many GPUs, under torchrun",
        network=replace(plan.network, width=1024, layers=24, heads=16, cond_dim=128),
        train=replace(plan.train, steps=100_000, lr=3e-4, warmup=2000, parallel="fsdp"),
    )


def fashion() -> Recipe:
    """Fashion-MNIST: 28×28, grey, 60,000 images."""
    return Recipe(
        name="fashion",
        about="Fashion-MNIST, 28×28 grey images as 14×14 tokens; for a minute or more on one H200",
        tokens="256 codes of a VQ codec that shrinks by 2",
        network=TransformerConfig(
            256, 196, width=256, layers=7, heads=4, grid=(14, 14), learned_positions=True, cond_dim=64, causal=True
        ),
        process=ProcessSpec(keep="linear"),
        train=TrainSpec(steps=6_000, batch=320, lr=2e-3, warmup=500, precision="bf16", **MIXED),
    )


def faces() -> Recipe:
    """Faces at 64 pixels: tens of thousands of images."""
    base = fashion()
    return replace(
        base,
        name="faces",
        about="faces of 64×64 pixels as 16×16 tokens; for two minutes or more on one H200",
        tokens="1024 codes of a VQ codec that shrinks by 4",
        network=replace(base.network, vocab=1024, length=256, width=384, layers=8, heads=6, grid=(16, 16)),
        train=replace(base.train, steps=4_000, batch=256),
    )


def chorales() -> Recipe:
    """Four-part chorales."""
    return Recipe(
        name="chorales",
        about="Bach's chorales, 64 sixteenths of four voices; small enough for a CPU, trained for minutes on one H200",
        tokens="a rest or one of 46 pitches, by the codec music",
        network=TransformerConfig(47, 256, width=192, layers=7, heads=6, grid=(64, 4), learned_positions=True, cond_dim=64),
        process=ProcessSpec(keep="linear", noise="unigram"),
        train=TrainSpec(
            steps=20_000,
            batch=256,
            lr=2e-3,
            min_lr=1e-5,
            warmup=200,
            weight_decay=0.1,
            grad_clip=1.0,
            clean_fraction=0.5,
            marked_fraction=0.3,
            precision="bf16",
        ),
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
        method="ggm-binary",
        train=TrainSpec(steps=2_000_000, batch=64, timesteps=32, decay=2_000_000, **PAPER),
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
        method="ggm-binary",
        train=TrainSpec(steps=1_450_000, batch=2048, decay=1_000_000, **PAPER),
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
    "base": base,
    "large": large,
    "fashion": fashion,
    "faces": faces,
    "chorales": chorales,
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
