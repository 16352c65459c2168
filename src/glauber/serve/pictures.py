"""PNG and nothing else: pictures that requests send, pictures that answers show, and the tasks that make them."""

import base64
import binascii
import io
import struct
import time

import numpy as np
from torch import Tensor

from glauber.codec import ImageCodec, as_pictures, is_image_codec
from glauber.method import Run
from glauber.model import Model
from glauber.process.draws import new_generator
from glauber.serve import fields, limits
from glauber.serve.job import Job, Task
from glauber.serve.recording import PREFIX, as_png
from glauber.serve.show import every_of
from glauber.serve.tasks import Answer, Make, cost, require_within
from glauber.tasks.inpaint import REFINEMENTS, inpainting
from glauber.tasks.steps import Draw, Steps

SIGNATURE = b"\x89PNG\r\n\x1a\n"
STATES = 256
"""Pictures of a stream."""


def read_png(url: str, what: str, colour: bool = False) -> np.ndarray:
    """uint8 (H, W), or (H, W, 3) in colour. Its size is read first, and a large one is never unpacked."""
    from PIL import Image

    refusal = f"the {what} is no PNG; send one as {PREFIX}…"
    if not url.startswith(PREFIX):
        raise ValueError(refusal)
    try:
        content = base64.b64decode(url[len(PREFIX) :], validate=True)
        width, height = struct.unpack(">II", content[16:24])
    except (binascii.Error, ValueError, struct.error):
        raise ValueError(refusal) from None
    if content[:8] != SIGNATURE or content[12:16] != b"IHDR" or not width * height:
        raise ValueError(refusal)
    if width * height > limits.PIXELS:
        raise ValueError(f"the {what} has {width}×{height} pixels, more than the {limits.PIXELS:,} that are read")
    damaged = f"the {what} is damaged; save it as PNG again"
    try:
        image = Image.open(io.BytesIO(content), formats=["PNG"])
        if image.size != (width, height):  # of a second header, which says another size
            raise ValueError(damaged)
        seen = image.convert("RGBA") if image.mode == "P" else image
        return np.asarray(seen.convert("RGB" if colour else "L"))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError, struct.error, MemoryError):
        raise ValueError(damaged) from None


def require_image_codec(model: Model) -> ImageCodec:
    """Refused where there is none."""
    if not is_image_codec(model.codec):
        raise ValueError("this model makes no images; choose another one, or write text")
    return model.codec


class ImageShow:
    """Tells every n-th state of a chain of images as pictures."""

    def __init__(self, job: Job, codec: ImageCodec, steps: int, block: int, request: fields.Streamed, about: Answer):
        self.job, self.codec, self.steps, self.block, self.about = job, codec, steps, block, about
        updates, states = steps // block, max(1, STATES // request.n)
        self.every, self.begun = every_of(request, updates, states, -(-updates // min(16, states))), False

    def on_step(self, t: int, x: Tensor) -> None:
        """See `run_chain`."""
        if not self.begun:
            shape = {"steps": self.steps, "every": self.every, "rows": len(x), "shape": list(self.codec.shape)}
            self.job.tell("start", {"kind": "image", **shape, **self.about})
            self.begun = True
        if (self.steps - t) // self.block % self.every and t:
            return
        vocab = self.codec.vocab
        images = [as_png(image) for image in as_pictures(self.codec.decode(x.cpu().clamp_max(vocab - 1)))]
        self.job.tell("state", {"step": self.steps - t, "t": t, "images": images})


def sample(request: fields.Images, seed: int, samplers: Make) -> Task:
    """Whole images."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), require_image_codec(model)
        sampler = samplers(request, lambda options: model.sampler(**options))
        require_within(request.n * sampler.calls)
        show, on_step = None, None
        if request.stream and sampler.plan.by_chain:
            about = {"model": request.model, "seed": seed, "calls": sampler.calls}
            show = ImageShow(job, codec, sampler.schedule.steps, sampler.schedule.block, request, about)
            on_step = show.on_step
        tokens = yield Draw(sampler, request.n, Run(new_generator(seed), on_step=on_step))
        return _images(model, codec.decode(tokens.cpu()), job, began, seed) | {"tokens": tokens.tolist()}

    return task


def inpaint(request: fields.Inpaint, seed: int, samplers: Make) -> Task:
    """An image with a part of it drawn anew."""

    def task(job: Job, model: Model) -> Steps[Answer]:
        began, codec = time.monotonic(), require_image_codec(model)
        image, mask = read_png(request.image, "image", len(codec.shape) == 3), read_png(request.mask, "mask")
        sampler = samplers(request, lambda options: model.sampler(**options, gaps=True))
        require_within((REFINEMENTS + 1) * request.n * sampler.calls)
        on_step = None
        if request.stream:
            about = {"model": request.model, "seed": seed, "calls": sampler.calls}
            schedule = sampler.schedule
            on_step = ImageShow(job, codec, schedule.steps, schedule.block, request, about).on_step
        run = Run(new_generator(seed), on_step=on_step)
        pictures = yield from inpainting(sampler, codec, image, mask, request.n, request.mask_rule, run)
        return _images(model, pictures, job, began, seed)

    return task


def _images(model: Model, pictures: np.ndarray, job: Job, began: float, seed: int) -> Answer:
    images = [as_png(image) for image in as_pictures(pictures)]
    return {"images": images} | cost(job, began, seed)
