"""Holes in images: from a mask over pixels to the tokens that are filled in and those that are given.

A token of a VQ codec looks beyond its own square, often over the whole image, so what lies in a hole changes tokens all around
it. A rule says which tokens are given; none of them lets what the image holds inside the hole reach the tokens.
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glauber.codec import ImageCodec
from glauber.codec.vq import VQCodec
from glauber.method import Request, Run
from glauber.process import smallest_block
from glauber.sampler import Sampler
from glauber.tasks.steps import Draw, Steps

RULES = ("cover", "paper", "iterative")
"""cover: fill in every token whose square touches the hole; the hole is closed smoothly before the others are read.
paper: read the tokens with the hole black and with the hole white, and keep those that agree.
iterative: as cover, in a fast pass; then encode the filled image and fill in anew given its tokens, some times, and at last
by the chain that was asked for. What was given at first was encoded around a hole; so it becomes what it is around the fill."""
REFINEMENTS = 4
"""Fast passes."""
FAST_CALLS = 14
"""Network calls of a fast pass."""


def read_mask(mask: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """(H, W) bool, true where to fill in. White is above the middle of the range; a mask of another size is scaled.

    A pixel is filled in when any white falls on it, so that thin strokes are not lost.
    """
    mask = mask[..., 0] if mask.ndim == 3 else mask
    if mask.ndim != 2 or not mask.size:
        raise ValueError(f"a mask is a picture of rows and columns, not an array of shape {mask.shape}")
    hole = mask > (127 if mask.max() > 1 else 0.5)  # greys, or 0 and 1
    if not hole.any():
        raise ValueError("the mask has no white pixel, so there is nothing to fill in")
    for axis, side in enumerate(size):
        n = hole.shape[axis]
        parts = [hole.take(range(k * n // side, -(-(k + 1) * n // side)), axis).any(axis) for k in range(side)]
        hole = np.stack(parts, axis)
    if hole.all():
        raise ValueError("the mask is white all over, so nothing of the image would be kept; sample whole images instead")
    return hole


def own_rule(codec: ImageCodec) -> str:
    """What to do unless told: refine where tokens look beyond their own squares."""
    return "iterative" if isinstance(codec, VQCodec) else "cover"


def fast_pass(sampler: Sampler) -> Sampler:
    """For a fill that is not the last one: few calls in random order, if the model can run such a chain."""
    method, config = sampler.method, sampler.network.config
    if not method.can.any_schedule or config.conditioning == "time":
        return sampler
    L, plan = sampler.length, sampler.plan
    request = Request(
        sweeps=1,
        block=smallest_block(L, L, FAST_CALLS),
        order="random",
        class_=plan.class_,
        guidance=plan.guidance,
        options=plan.options,
    )
    return Sampler(sampler.network, sampler.process, method, request, sampler.precision)


def inpainting(
    sampler: Sampler,
    codec: ImageCodec,
    image: np.ndarray,
    mask: np.ndarray,
    num: int,
    rule: str | None = None,
    run: Run = Run(),
) -> Steps[np.ndarray]:
    """(num, ...) images, filled in where the mask is white; pixels outside are as they were."""
    if image.shape != codec.shape:
        raise ValueError(f"this model takes images of {_size(codec.shape)}, not of {_size(image.shape)}; bring it to that")
    hole = read_mask(mask, codec.shape[:2])
    rule = own_rule(codec) if rule is None else rule
    given, tokens = given_tokens(codec, image, hole, rule)

    def fill(by: Sampler, tokens: Tensor, run: Run) -> Steps[np.ndarray]:
        pictures = codec.decode((yield Draw(by, num, replace(run, clamp=(given, tokens)))))
        pictures[:, ~hole] = image[~hole]
        return pictures

    if rule == "iterative" and num:
        fast, quietly = fast_pass(sampler), replace(run, on_step=None)
        for _ in range(REFINEMENTS):
            tokens = codec.encode((yield from fill(fast, tokens, quietly)))
    return (yield from fill(sampler, tokens, run))


def _size(shape: tuple[int, ...]) -> str:
    return f"{'×'.join(map(str, shape[1::-1]))} pixels{', in colour' * (len(shape) == 3)}"


def given_tokens(codec: ImageCodec, image: np.ndarray, hole: np.ndarray, rule: str = "cover") -> tuple[Tensor, Tensor]:
    """Which tokens are given at first, (L,) bool, and the tokens, (L,); image uint8 of the codec's shape, hole (H, W) bool."""
    if rule not in RULES:
        raise ValueError(f"the mask rule is one of {', '.join(RULES)}, not {rule!r}")
    if rule == "paper":
        black, white = codec.encode(np.stack([_filled(image, hole, 0), _filled(image, hole, 255)]))
        return black == white, black
    return torch.from_numpy(~covered(codec, hole)), codec.encode(closed(image, hole)[None])[0]


def covered(codec: ImageCodec, hole: np.ndarray) -> np.ndarray:
    """(L,) bool: the tokens whose squares touch the hole."""
    rows, columns = codec.grid
    squares = hole.reshape(rows, hole.shape[0] // rows, columns, hole.shape[1] // columns)
    touched: np.ndarray = squares.any((1, 3)).flatten()
    return touched


def closed(image: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """The image with the hole closed smoothly: each pixel there is the mean of what is known around it, near or far."""
    pixels = torch.from_numpy(image.reshape(*hole.shape, -1).astype(np.float32)).permute(2, 0, 1)[None]
    known = torch.from_numpy(~hole)[None, None].float()
    smooth = _pull(pixels * known, known)[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8).numpy()
    return _filled(image, hole, smooth.reshape(image.shape)[hole])


def _pull(value: Tensor, weight: Tensor) -> Tensor:
    """Values (1, C, H, W), 0 where the weight is: those that are not known come from the same image at half the size."""
    if max(value.shape[2:]) == 1 or bool((weight > 0).all()):
        return value / weight.clamp_min(1e-6)
    coarse = [F.avg_pool2d(part, 2, ceil_mode=True) for part in (value, weight)]
    below = F.interpolate(_pull(*coarse), value.shape[2:], mode="bilinear", align_corners=False)
    return torch.where(weight > 0, value / weight.clamp_min(1e-6), below)


def _filled(image: np.ndarray, hole: np.ndarray, colour: "int | np.ndarray") -> np.ndarray:
    result = image.copy()
    result[hole] = colour
    return result


def placed(image: np.ndarray, shape: tuple[int, ...], left: int | None, top: int | None) -> tuple[np.ndarray, np.ndarray]:
    """For outpainting: a smaller image within one of `shape`, black around it, and the mask of what is around it.

    Args:
        left, top: how many pixels lie to the left of it and above it; half of those that are left over if None.
    """
    room = [shape[0] - image.shape[0], shape[1] - image.shape[1]]
    if min(room) < 0 or max(room) == 0:
        raise ValueError(
            f"to be continued an image must be smaller than the model's {shape[1]}×{shape[0]} pixels, and this one has "
            f"{image.shape[1]}×{image.shape[0]}"
        )
    y, x = (space // 2 if given is None else given for space, given in zip(room, (top, left), strict=True))
    if not (0 <= y <= room[0] and 0 <= x <= room[1]):
        raise ValueError(f"there is room for {room[1]} pixels to the left and {room[0]} above the image, not for {x} and {y}")
    canvas, around = np.zeros(shape, np.uint8), np.ones(shape[:2], bool)
    inside = slice(y, y + image.shape[0]), slice(x, x + image.shape[1])
    canvas[inside], around[inside] = image, False
    return canvas, around
