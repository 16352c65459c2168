"""Pictures of samples and of the chain at work. Needs pillow."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from glauber.codec import ImageCodec
from glauber.process import Process, Schedule
from glauber.process.draws import Generator, uniform

FRAMES, SHOWN = 100, 32
"""Of a GIF: the most frames, and the most samples side by side."""
PAPER, INK, ACCENT, FAINT = (255, 255, 255), (30, 30, 36), (240, 120, 40), (205, 212, 224)


def ink_on_paper(images: np.ndarray) -> np.ndarray:
    """Grey uint8 (N, H, W), white on black → colour (N, H, W, 3), dark on white."""
    return np.repeat(255 - images[..., None], 3, axis=-1)


def grid(images: np.ndarray, columns: int, scale: int, smooth: bool = True) -> Image.Image:
    """Colour images (N, H, W, 3) in rows, enlarged, with white between them."""
    number, height, width, _ = images.shape
    how, gap = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST, scale
    across, down = width * scale + gap, height * scale + gap
    sheet = Image.new("RGB", (columns * across + gap, -(-number // columns) * down + gap), PAPER)
    for k, image in enumerate(images):
        large = Image.fromarray(image).resize((width * scale, height * scale), how)
        sheet.paste(large, (gap + (k % columns) * across, gap + (k // columns) * down))
    return sheet


def rows_with_names(rows: dict[str, np.ndarray], scale: int) -> Image.Image:
    """One row of colour images per name, the name to the left."""
    strips = [grid(images, len(images), scale) for images in rows.values()]
    left = 12 + 8 * max(map(len, rows))
    sheet = Image.new("RGB", (left + strips[0].width, sum(strip.height for strip in strips)), PAPER)
    pen, top = ImageDraw.Draw(sheet), 0
    for name, strip in zip(rows, strips, strict=True):
        sheet.paste(strip, (left, top))
        pen.text((8, top + strip.height // 2 - 8), name, fill=INK, font_size=14)
        top += strip.height
    return sheet


def with_caption(picture: Image.Image, text: str, done: float) -> Image.Image:
    """The picture over a line of text and a bar that shows how much is `done`, in [0, 1]."""
    sheet = Image.new("RGB", (picture.width, picture.height + 30), PAPER)
    sheet.paste(picture, (0, 0))
    pen, bottom = ImageDraw.Draw(sheet), picture.height
    pen.rectangle((8, bottom + 2, picture.width - 9, bottom + 5), fill=FAINT)
    pen.rectangle((8, bottom + 2, 8 + round((picture.width - 17) * done), bottom + 5), fill=ACCENT)
    pen.text((8, bottom + 10), text, fill=INK, font_size=13)
    return sheet


class Film:
    """Keeps the states of a chain at some times: an `on_step` of `run_chain`."""

    def __init__(self, times: Iterable[int]):
        self.times, self.states = frozenset(times), dict[int, Tensor]()

    def __call__(self, t: int, x: Tensor) -> None:
        if t in self.times:
            self.states[t] = x.cpu()


def strip_times(schedule: Schedule) -> list[int]:
    """Where the paper's figure looks: the quarters of the first sweep, then the ends of (at most four) sweeps."""
    sweeps = np.unique(np.linspace(1, max(1, schedule.sweeps), 4).round())
    wanted = [*(schedule.length * np.arange(4) / 4), *(schedule.length * sweeps)]
    return sorted({min(schedule.steps, int(t) // schedule.block * schedule.block) for t in wanted})


def film_times(schedule: Schedule) -> list[int]:
    """For a GIF: at most FRAMES, evenly spaced, the first and the last state among them."""
    every = [*schedule.times, schedule.steps]
    return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, FRAMES).round().astype(int))]


def noising(process: Process, x0: Tensor, times: Iterable[int], generator: Generator | None = None) -> dict[int, Tensor]:
    """Rows x0 (B, L) as noise falls on them: at each time a state with the law of X_t; what is noise once stays noise."""
    coin, noise = uniform(x0.shape, generator, x0.device), process.noise.sample(x0.shape, generator)
    survival = {t: process.schedule.survival(torch.tensor([t], device=x0.device)) for t in times}
    return {t: torch.where(coin < S, x0, noise) for t, S in survival.items()}


def decoded(codec: ImageCodec, x: Tensor) -> np.ndarray:
    """Colour images (B, H, W, 3) of states (B, L); squares whose token is the mask are faint."""
    masked = x == codec.vocab
    images = codec.decode(torch.where(masked, 0, x))
    images = np.repeat(images[..., None], 3, axis=-1) if images.ndim == 3 else images
    squares = np.ones((codec.shape[0] // codec.grid[0], codec.shape[1] // codec.grid[1]), dtype=bool)
    images[np.kron(masked.view(-1, *codec.grid).numpy(), squares[None])] = FAINT
    return images


def strip(codec: ImageCodec, process: Process, film: Film, generator: Generator | None = None) -> Image.Image:
    """The first row of a chain in two strips, as in the paper's figure 3: noise falls on what it made; how it was made."""
    times = strip_times(process.schedule)
    back = [film.states[t][:1] for t in reversed(times)]
    forth = noising(process, back[-1].to(process.noise.probs.device), times, generator).values()
    rows = {"noising": [x.cpu() for x in forth], "denoising": back}
    return rows_with_names({name: decoded(codec, torch.cat(states)) for name, states in rows.items()}, scale_to(128, codec))


def film_frames(codec: ImageCodec, schedule: Schedule, film: Film) -> list[Image.Image]:
    """The chain's states as sheets, with the step below each."""
    frames = []
    for t in reversed(film_times(schedule)):
        images = decoded(codec, film.states[t][:SHOWN])
        sheet = grid(images, -(-len(images) // max(1, round((len(images) / 2) ** 0.5))), scale_to(64, codec), smooth=False)
        frames.append(with_caption(sheet, f"step {schedule.steps - t:,} of {schedule.steps:,}", 1 - t / schedule.steps))
    return frames


def scale_to(height: int, codec: ImageCodec) -> int:
    """By how much small images are enlarged, to at most this height."""
    return max(1, height // codec.shape[0])


def save_gif(frames: Sequence[Image.Image], path: Path | BinaryIO, milliseconds: int = 90, hold: int = 2500) -> None:
    """A GIF that repeats for ever and holds its last frame."""
    palette = frames[len(frames) // 2].quantize(128)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [milliseconds] * (len(small) - 1) + [hold]
    small[0].save(path, "gif", save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)
