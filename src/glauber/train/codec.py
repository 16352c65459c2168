"""A training run of a VQ codec, in a folder: `glauber codec train`. The steps themselves are those of `train.vq`."""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from glauber.codec.vq import CONFIG, WEIGHTS, VQCodec
from glauber.data.images import LARGEST, Frame, find_images
from glauber.data.sources import Sources
from glauber.runtime.files import disk_full_said, parse_json, write
from glauber.runtime.locks import locked
from glauber.runtime.progress import progress_bar, watched
from glauber.runtime.signals import stop_requests
from glauber.train.vq import VQSettings, VQTrainer

STATE, LOG, SHEET, PIXELS = "training.safetensors", "log.jsonl", "reconstructions-{:06d}.png", "images.tmp"
HELD_OUT = 64
"""Images that the codec is validated on and never trained on: one in twenty, and at most so many."""


class CodecRun(NamedTuple):
    """How a run ended."""

    done: bool
    report: dict[str, Any]  # step, images, held_out, and the figures of `reconstruction`


def train_codec(
    sources: Sequence[str | Path],
    out: str | Path,
    settings: VQSettings,
    size: int = 64,
    grey: bool = False,
    every: int = 500,
    resume: bool = False,
    progress: bool = True,
) -> CodecRun:
    """Train, and write what there is into `out` every so many steps, at the end, and on Ctrl-C.

    Args:
        sources: images and folders of images, each cut to its middle square and resized.
        out: takes config.json and diffusion_pytorch_model.safetensors, which `VQCodec.load` and diffusers read, sheets of
            originals above their reconstructions, log.jsonl, and training.safetensors, from which training goes on.
        resume: go on from there; only the number of steps and the learning rate may be others.
    """
    if every < 1 or not 1 <= size <= isqrt(LARGEST):
        raise ValueError(f"a sheet is made after 1 step or more, of images of 1 to {isqrt(LARGEST):,} pixels a side")
    found, out = Sources(sources, frame=Frame(size, grey)), Path(out)
    trainer = VQTrainer(settings, found.shape)
    same = {name: value for name, value in asdict(settings).items() if name not in ("steps", "lr")}
    folder = _Folder(out, same | {"size": size, "grey": grey, "images": found.describe()})
    if resume:
        folder.restore(trainer)
    out.mkdir(parents=True, exist_ok=True)
    busy = f"another process trains in {out} at this moment; wait until it ends, stop it, or name another folder with --out"
    pixels = _pixels(found, out, progress)
    with disk_full_said(out, "go on with --resume"), locked(out, busy), pixels as images, stop_requests() as stopped:
        if not resume:
            (out / LOG).unlink(missing_ok=True)
        train, held = images
        shown, saved = held if len(held) else np.array(train[:HELD_OUT]), trainer.step
        with progress_bar(progress, settings.steps, "codec", "step", initial=trainer.step) as bar:
            while trainer.step < settings.steps and not stopped:
                parts = trainer.train_step(train)
                bar.update()
                if trainer.device.type == "cpu":  # a GPU is not waited for at each step
                    _require_finite(parts, trainer, saved)
                if trainer.step % every == 0:
                    _require_finite(parts | trainer.state(), trainer, saved)
                    report, saved = folder.save(trainer, shown, parts), trainer.step
                    bar.set_postfix(psnr=report["psnr"], codes=report["codes"])
        if trainer.step > saved:
            _require_finite(parts | trainer.state(), trainer, saved)
            folder.save(trainer, shown, parts)
        report = {
            "step": trainer.step,
            "images": len(train) + len(held),
            "held_out": len(held),
            **reconstruction(trainer.codec(), shown),
        }
    return CodecRun(trainer.step >= settings.steps, report)


def _require_finite(tensors: dict[str, Tensor], trainer: VQTrainer, saved: int) -> None:
    """Stop where a loss, or what is about to be saved, is not finite: what was saved before stays, and goes on."""
    lost = next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), None)
    if lost is not None:
        then = f"go on from step {saved} with --resume" if saved else "begin again with --force"
        slower = f"and a lower rate, such as --lr {trainer.settings.lr / 10:.3g}"
        raise ValueError(f"{lost} is not finite after step {trainer.step} of the codec; {then} {slower}")


def reconstruction(codec: VQCodec, images: np.ndarray) -> dict[str, Any]:
    """How well images come back, in decibels of peak signal to noise, and how many of the codes they use."""
    tokens = codec.encode(images)
    error = ((codec.decode(tokens).astype(np.float64) - images) ** 2).mean(tuple(range(1, images.ndim)))
    psnr = 10 * np.log10(255**2 / np.maximum(error, 1e-6))
    return {"psnr": round(float(psnr.mean()), 2), "codes": len(np.unique(tokens.numpy()))}


def sheet(images: np.ndarray, again: np.ndarray, columns: int = 8) -> np.ndarray:
    """Rows of images, each above the row of what came back: uint8 (rows · 2 · H, columns · W, ...)."""
    columns = min(columns, len(images))
    rows = min(2, len(images) // columns)
    height, width, *rest = images.shape[1:]
    pairs = np.stack([images[: rows * columns], again[: rows * columns]])
    pairs = pairs.reshape(2, rows, columns, height, width, *rest)
    return np.moveaxis(pairs, (1, 0, 3, 2), (0, 1, 2, 3)).reshape(rows * 2 * height, columns * width, *rest)


@dataclass(frozen=True)
class _Folder:
    """A run's folder, and what must be the same to go on with it."""

    out: Path
    same: dict[str, Any]

    def save(self, trainer: VQTrainer, shown: np.ndarray, parts: dict[str, Tensor]) -> dict[str, Any]:
        """The codec, a sheet, the state and a line of the log, which is returned."""
        from PIL import Image
        from safetensors.torch import save

        codec, some, picture = trainer.codec(), shown[:16], io.BytesIO()
        write(self.out / WEIGHTS, save(codec.weights, metadata={"format": "pt"}))
        write(self.out / CONFIG, (json.dumps({"_class_name": "VQModel", **codec.network}, indent=2) + "\n").encode())
        Image.fromarray(sheet(some, codec.decode(codec.encode(some)))).save(picture, "png")
        write(self.out / SHEET.format(trainer.step), picture.getvalue())
        about = {"step": str(trainer.step), "same": json.dumps(self.same)}
        write(self.out / STATE, save(trainer.state(), metadata=about))
        losses = {name: round(float(part), 5) for name, part in parts.items()}
        report = {"step": trainer.step, **reconstruction(codec, shown), **losses}
        with (self.out / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(report) + "\n")
        return report

    def restore(self, trainer: VQTrainer) -> None:
        """Bring the trainer to where the run was saved."""
        from safetensors import SafetensorError, safe_open

        path = self.out / STATE
        if not path.is_file():
            raise ValueError(f"{self.out} holds no {STATE} to go on from; leave --resume out to start")
        try:
            with safe_open(path, "pt") as file:
                said, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            before, step = parse_json(said["same"]), int(said["step"])
            changed = [name for name, value in self.same.items() if before.get(name) != value]
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is damaged; start anew with --force") from error
        if changed:
            raise ValueError(f"{self.out} was trained with another choice of {', '.join(changed)}; repeat that choice to go on")
        try:
            trainer.load_state(tensors, step)
        except (KeyError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} is damaged; start anew with --force") from error


@contextmanager
def _pixels(sources: Sources, out: Path, progress: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The images to train on, uint8 (N, *shape), in a file that goes away at the end; some drawn at random for validation."""
    count, path = sum(1 for source in sources.files for _ in find_images(source.path)), out / PIXELS
    chosen = set(np.random.default_rng(0).choice(count, min(HELD_OUT, count // 20), replace=False).tolist())
    held = np.empty((0, *sources.shape), np.uint8)
    try:
        with path.open("wb") as file:
            for place, piece in enumerate(watched(sources.pieces(), progress, count, "images", "image")):
                pixels = np.asarray(piece.data)
                if place in chosen:
                    held = np.concatenate([held, pixels[None]])
                else:
                    file.write(pixels.tobytes())
        yield np.memmap(path, np.uint8, "r", shape=(count - len(held), *sources.shape)), held
    finally:
        path.unlink(missing_ok=True)
        with suppress(OSError):
            out.rmdir()  # if it holds nothing
