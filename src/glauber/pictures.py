"""Pictures of samples and of the chain at work. Needs pillow."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

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


def save_gif(frames: Sequence[Image.Image], path: Path, milliseconds: int = 90, hold: int = 2500) -> None:
    """A GIF that repeats for ever and holds its last frame."""
    palette = frames[len(frames) // 2].quantize(128)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [milliseconds] * (len(small) - 1) + [hold]
    small[0].save(path, save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)
