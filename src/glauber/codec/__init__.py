"""Real things ⇄ tokens. Imports nothing of ours."""

from typing import Any

from torch import Tensor

from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec


def codec_from_dict(config: dict[str, Any], tensors: dict[str, Tensor]) -> ImageCodec:
    """The inverse of a codec's `to_dict` and `tensors`."""
    if not isinstance(config, dict):
        raise ValueError(f"a codec's config is a table of its settings, not {config!r}")
    kind = config.get("kind")
    options = {name: value for name, value in config.items() if name not in ("kind", "shape")}
    if kind == PixelCodec.kind:
        return PixelCodec(tuple(config["shape"]), **options)
    if kind == PatchCodec.kind:
        return PatchCodec(tensors["centres"], shape=tuple(config["shape"]), **options)
    raise ValueError(f"unknown codec {kind!r}; this version of glauber knows 'pixels' and 'patches'")


__all__ = ["ImageCodec", "PatchCodec", "PixelCodec", "codec_from_dict"]
