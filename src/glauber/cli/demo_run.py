"""The main job on embedded data: train on digits from scratch, sample, fill gaps in, and look at it all."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber import pictures
from glauber.chain import CallCounter, run_chain
from glauber.codec import PatchCodec
from glauber.conditional import Denoiser, Transformer
from glauber.data import Digits, load_digits
from glauber.model import Model
from glauber.provenance import write_figures
from glauber.train import Trained, recipe, train

SAMPLES = 200
SHOWN = 60


def run_demo(out: Path, seed: int = 0, steps: int | None = None) -> dict[str, Any]:
    """Train, sample, infill, and write the pictures, the model and summary.json into `out`. Returns the summary."""
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    model, trained = train_on_digits(digits, seed, steps)
    model.save(out / "model", overwrite=True)

    network = CallCounter(model.network)
    tokens = run_chain(Denoiser(network), model.process, SAMPLES, generator=torch.Generator().manual_seed(seed))
    assert isinstance(model.codec, PatchCodec)
    samples = model.codec.decode(tokens)
    pictures.grid(pictures.ink_on_paper(samples[:SHOWN]), columns=10, scale=6).save(out / "samples.png")
    chain_gif(model, out / "chain.gif", seed)
    infill_picture(model, digits, out / "infill.png", seed)
    loss_picture(trained.losses, out / "loss.png")

    noise = model.codec.decode(model.process.noise.sample((SAMPLES, model.process.length), torch.Generator().manual_seed(seed)))
    decoded = model.codec.decode(model.codec.encode(digits.held_out))
    classified = classify(digits, {"samples": samples, "noise": noise, "codec": decoded})
    bits = model.score(digits.held_out)
    summary = {
        "loss_before": float(np.mean(trained.losses[:10])),
        "loss_after": float(np.mean(trained.losses[-100:])),
        "held_out_bits_per_token": bits["bits_per_token"],
        "calls": network.rows / SAMPLES,
        "steps": model.process.schedule.steps,
        **classified,
        "train_steps": len(trained.losses),
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "seed": seed,
        "seconds": time.perf_counter() - began,
    }
    write_figures(out / "summary.json", summary)
    return summary


def train_on_digits(digits: Digits, seed: int, steps: int | None) -> tuple[Model, Trained]:
    """The recipe `digits`, from scratch, with a progress bar."""
    plan = recipe("digits")
    spec = replace(plan.train, seed=seed, steps=plan.train.steps if steps is None else steps)
    codec = PatchCodec.fit(digits.train, patch=2, vocab=plan.network.vocab, seed=seed)
    process = plan.process.build(codec.vocab, plan.network.length)
    torch.manual_seed(seed)  # the network's first weights
    trained = train(Transformer(plan.network), process, codec.encode(digits.train), spec, plan.method, progress=True)
    about = {"recipe": plan.name, "data": "scikit-learn's digits, 1500 of 1797", "steps": spec.steps, "seed": seed}
    return Model(trained.network, process, codec, plan.method, plan.sampling, about), trained


def classify(digits: Digits, others: dict[str, np.ndarray]) -> dict[str, Any]:
    """How sure a classifier trained on real digits is of held-out ones and of `others`; how many classes the samples cover."""
    from sklearn.linear_model import LogisticRegression

    def flat(images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), -1) / 255

    classifier = LogisticRegression(max_iter=2000).fit(flat(digits.train), digits.train_labels)
    laws = {name: classifier.predict_proba(flat(images)) for name, images in {"real": digits.held_out, **others}.items()}
    figures: dict[str, Any] = {f"confidence_{name}": float(law.max(1).mean()) for name, law in laws.items()}
    figures["classes"] = len(np.unique(laws["samples"].argmax(1)))
    figures["accuracy_real"] = float((laws["real"].argmax(1) == digits.held_out_labels).mean())
    return figures


def chain_gif(model: Model, path: Path, seed: int, rows: int = 4, columns: int = 8) -> None:
    """Every state of a chain from noise to digits; the patch just re-sampled is tinted."""
    codec, schedule = model.codec, model.process.schedule
    assert isinstance(codec, PatchCodec)
    frames = []

    def show(t: int, x: Tensor) -> None:
        images = pictures.ink_on_paper(codec.decode(x))
        if 0 < t < schedule.steps:
            top, left = (codec.patch * int(k) for k in divmod(int(schedule.site(t)), codec.grid[1]))
            square = images[:, top : top + codec.patch, left : left + codec.patch]
            square[:] = (0.55 * square + 0.45 * np.array(pictures.ACCENT)).astype(np.uint8)
        caption = f"step {schedule.steps - t} of {schedule.steps}: one site at a time"
        sheet = pictures.grid(images, columns, scale=8, smooth=False)
        frames.append(pictures.with_caption(sheet, caption, done=1 - t / schedule.steps))

    model.sample_tokens(rows * columns, seed + 1, on_step=show)
    pictures.save_gif(frames, path)


def infill_picture(model: Model, digits: Digits, path: Path, seed: int) -> None:
    """Held-out digits with a part hidden: what is given, what the chain fills in, what was there."""
    gaps = np.zeros((4, 8, 8), dtype=bool)
    gaps[0, 4:], gaps[1, :4], gaps[2, :, 4:], gaps[3, 2:6, 2:6] = True, True, True, True
    images = digits.held_out[:12]
    masks = gaps[np.arange(len(images)) % len(gaps)]
    fills = np.stack(
        [np.asarray(model.inpaint(i, m, seed=seed + k)) for k, (i, m) in enumerate(zip(images, masks, strict=True))]
    )
    truth = pictures.ink_on_paper(images)
    given = np.where(masks[..., None], np.array(pictures.FAINT, dtype=np.uint8), truth)
    rows = {"given": given, "filled": pictures.ink_on_paper(fills), "truth": truth}
    pictures.rows_with_names(rows, scale=6).save(path)


def loss_picture(losses: list[float], path: Path) -> None:
    """The training loss, raw and averaged over 50 steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    window = min(50, len(losses))
    smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
    axes.plot(losses, color="#cdd4e0", linewidth=0.8)
    axes.plot(np.arange(len(smooth)) + window - 1, smooth, color="#f07828", linewidth=1.8)
    axes.set(xlabel="training step", ylabel="dense loss (nats per site)", ylim=(min(losses) * 0.9, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
