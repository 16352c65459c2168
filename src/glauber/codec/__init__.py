"""Real things ⇄ tokens. Imports nothing of ours."""

from typing import Any

from torch import Tensor

from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec


def codec_from_dict(config: dict[str, Any], tensors: dict[str, Tensor]) -> ImageCodec:
    """The inverse of a codec's `to_dict` and `tensors`."""
    kind, shape = config.get("kind"), tuple(config.get("shape", ()))
    if kind == PixelCodec.kind:
        return PixelCodec((shape[0], shape[1]), config["levels"])
    if kind == PatchCodec.kind:
        return PatchCodec(tensors["centres"], config["patch"], shape)
    raise ValueError(f"unknown codec {kind!r}; this version of glauber knows 'pixels' and 'patches'")


__all__ = ["ImageCodec", "PatchCodec", "PixelCodec", "codec_from_dict"]
