"""A few samples while a model trains, for people to look at. Few network calls, so that they cost less than the bound does."""

import io
import json
from pathlib import Path

import numpy as np
from torch import Tensor

from glauber.codec import Codec, is_image_codec, is_text_codec
from glauber.model import Model
from glauber.process import smallest_block
from glauber.runtime.files import write
from glauber.sampler import Sampler

CALLS = 64
"""Most network calls of the chain."""


def quick_sampler(model: Model) -> Sampler | None:
    """The model's own sampling in blocks so large that CALLS calls do. None for a chain that must go all its own steps."""
    own, sampler = model.process.schedule, model.sampler()
    if not sampler.plan.by_chain:
        return model.sampler(calls=min(CALLS, max(2, own.length)))
    if sampler.calls <= CALLS or own.causal:  # which costs little
        return sampler
    directed = own.to_dict()["order"] in ("left-to-right", "right-to-left")
    order = "segments" if directed else None  # sites drawn together are then far apart
    try:
        return model.sampler(block=smallest_block(own.length, own.steps, CALLS), order=order)
    except ValueError:
        return None


def write_samples(model: Model, tokens: Tensor, folder: Path, step: int) -> Path:
    """Text, a sheet of images, or JSON of the tokens where they are neither; all or nothing."""
    folder.mkdir(exist_ok=True)
    if is_image_codec(model.codec):
        things = model.decode(tokens.cpu())
        kind, content = "png", _sheet(np.stack([np.asarray(image.convert("RGB")) for image in things]))
    elif is_text_codec(model.codec):
        kind, content = "txt", ("\n----\n".join(model.decode(tokens.cpu())) + "\n").encode()
    else:
        kind, content = "json", (json.dumps(tokens.tolist()) + "\n").encode()
    path = folder / f"step-{step:08d}.{kind}"
    write(path, content)
    return path


def require_pillow(codec: Codec | None) -> None:
    """Refuse at the start, not at the first validation."""
    if is_image_codec(codec):
        try:
            import PIL  # noqa: F401
        except ImportError as error:
            raise ImportError("samples of images need pillow: pip install 'glauber[image]', or set train.samples=0") from error


def _sheet(images: np.ndarray) -> bytes:
    from glauber.pictures import grid

    content = io.BytesIO()
    grid(images, min(10, len(images)), max(1, 64 // images.shape[1])).save(content, "PNG")
    return content.getvalue()
