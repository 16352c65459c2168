"""A few samples while a model trains, for people to look at. Few network calls, so that they cost less than the bound does."""

import io
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glauber.chain import run_chain
from glauber.codec import ImageCodec, TextCodec, is_image_codec
from glauber.conditional import Conditional, StepLaw
from glauber.method import DIFFUSIONS
from glauber.model import Model
from glauber.process import Process, Schedule, smallest_block
from glauber.runtime.files import write
from glauber.runtime.runners import cuda_runner

CALLS = 64
"""Most network calls of the chain."""


def quick_schedule(model: Model) -> Schedule | None:
    """The model's own schedule in blocks so large that CALLS calls do. None for one that must go its own T > CALLS steps."""
    own = model.process.schedule
    if len(own.times) <= CALLS or own.causal or model.objective in DIFFUSIONS:  # reading on costs little, others count calls
        return own
    try:
        return model.schedule(block=smallest_block(own.length, own.steps, max(CALLS, own.sweeps)))
    except ValueError:
        return None


def draw_samples(model: Model, conditional: Conditional | StepLaw | None, schedule: Schedule, num: int) -> Tensor:
    """(num, L) tokens, always from the same random numbers: pictures of one step and the next can be compared."""
    if conditional is None:
        return model.sample_tokens(num, seed=0, calls=min(CALLS, max(2, schedule.length)))
    options = dict(model.sampling)
    if isinstance(conditional, StepLaw):
        options.setdefault("truncate", "mixture")  # all that it knows
    generator = torch.Generator().manual_seed(0)
    process = Process(schedule, model.process.noise)
    return run_chain(conditional, process, num, generator=generator, **options, _runner=cuda_runner)


def write_samples(model: Model, tokens: Tensor, folder: Path, step: int) -> Path:
    """Text, a sheet of images, or JSON where the tokens stand for themselves; all or nothing."""
    folder.mkdir(exist_ok=True)
    things = model.decode(tokens.cpu())
    if is_image_codec(model.codec):
        kind, content = "png", _sheet(np.stack([np.asarray(image.convert("RGB")) for image in things]))
    elif model.codec is not None:
        kind, content = "txt", ("\n----\n".join(things) + "\n").encode()
    else:
        kind, content = "json", (json.dumps(things) + "\n").encode()
    path = folder / f"step-{step:08d}.{kind}"
    write(path, content)
    return path


def require_pillow(codec: ImageCodec | TextCodec | None) -> None:
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
