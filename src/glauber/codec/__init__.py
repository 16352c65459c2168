"""Real things ⇄ tokens. Imports nothing of ours."""

from typing import Any, TypeGuard

from torch import Tensor

from glauber.codec.image import ImageSpec
from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec
from glauber.codec.text import ByteCodec, CharCodec, TextCodec, TokenizerCodec, text_codec, text_codec_from_dict
from glauber.codec.vq import VQCodec

TEXT_KINDS = (CharCodec.kind, ByteCodec.kind, TokenizerCodec.kind)


def is_image_codec(codec: ImageCodec | TextCodec | None) -> TypeGuard[ImageCodec]:
    """Whether its tokens lie on a grid."""
    return hasattr(codec, "grid")


def codec_from_dict(config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """The inverse of a codec's `to_dict` and `tensors`: an ImageCodec or a TextCodec, by its kind."""
    if not isinstance(config, dict):
        raise ValueError(f"a codec's config is a table of its settings, not {config!r}")
    kind = config.get("kind")
    options = {name: value for name, value in config.items() if name not in ("kind", "shape")}
    if kind == PixelCodec.kind:
        return PixelCodec(tuple(config["shape"]), **options)
    if kind == PatchCodec.kind:
        return PatchCodec(tensors["centres"], shape=tuple(config["shape"]), **options)
    if kind == VQCodec.kind:
        return VQCodec.from_tensors(tensors=tensors, shape=tuple(config["shape"]), **options)
    if kind in TEXT_KINDS:
        return text_codec_from_dict(config)
    known = ", ".join(map(repr, (PixelCodec.kind, PatchCodec.kind, VQCodec.kind, *TEXT_KINDS)))
    raise ValueError(f"unknown codec {kind!r}; this version of glauber knows {known}")


__all__ = [
    "ByteCodec",
    "CharCodec",
    "ImageCodec",
    "ImageSpec",
    "PatchCodec",
    "PixelCodec",
    "TextCodec",
    "TokenizerCodec",
    "VQCodec",
    "codec_from_dict",
    "is_image_codec",
    "text_codec",
    "text_codec_from_dict",
]
