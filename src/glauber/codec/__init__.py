"""Real things ⇄ tokens. Imports nothing of ours."""

import reprlib
from typing import Any, TypeGuard

import numpy as np
from torch import Tensor

from glauber.codec.image import ImageSpec
from glauber.codec.named import NamedCodec, named_codec, use_codec
from glauber.codec.patches import PatchCodec
from glauber.codec.pixels import PixelCodec
from glauber.codec.protocol import ImageCodec
from glauber.codec.text import ByteCodec, CharCodec, TextCodec, TokenizerCodec, text_codec, text_codec_from_dict
from glauber.codec.vq import VQCodec

TEXT_KINDS = (CharCodec.kind, ByteCodec.kind, TokenizerCodec.kind)


Codec = ImageCodec | TextCodec | NamedCodec


def is_image_codec(codec: Codec | None) -> TypeGuard[ImageCodec]:
    """Whether it is one of images."""
    return hasattr(codec, "grid") and not isinstance(codec, NamedCodec)


def is_text_codec(codec: Codec | None) -> TypeGuard[TextCodec]:
    """Whether it is one of text."""
    return codec is not None and not is_image_codec(codec) and not isinstance(codec, NamedCodec)


def decode_tokens(codec: Codec | None, tokens: Tensor) -> list[Any]:
    """PIL images, strings, what a user's codec makes, or lists of tokens where there is no codec."""
    if isinstance(codec, NamedCodec):
        return codec.decode(tokens)
    if is_image_codec(codec):
        return as_pictures(codec.decode(tokens))
    rows = tokens.tolist()
    return [codec.decode(row) for row in rows] if is_text_codec(codec) else rows


def as_pictures(pixels: np.ndarray) -> list[Any]:
    """PIL images of an array of them."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need pillow: pip install 'glauber[image]'") from error
    return [Image.fromarray(picture) for picture in pixels]


def codec_from_dict(config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """The inverse of a codec's `to_dict` and `tensors`: one of images, of text or of the user's own, by its kind."""
    if not isinstance(config, dict):
        raise ValueError(f"a codec's config is a table of its settings, not {config!r}")
    kind = config.get("kind")
    try:
        if kind in TEXT_KINDS:
            return text_codec_from_dict(config)
        if kind == NamedCodec.kind:
            return named_codec(str(config["name"]))
        if kind in (PixelCodec.kind, PatchCodec.kind, VQCodec.kind):
            return _image_codec(kind, config, tensors)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"these are not the settings and tensors of a codec of kind {kind!r} ({error})") from error
    known = ", ".join(map(repr, (PixelCodec.kind, PatchCodec.kind, VQCodec.kind, NamedCodec.kind, *TEXT_KINDS)))
    raise ValueError(f"unknown codec {kind!r}; this version of glauber knows {known}")


def _image_codec(kind: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> ImageCodec:
    options = {name: value for name, value in config.items() if name not in ("kind", "shape")}
    shape = tuple(config["shape"])
    if any(type(side) is not int or side < 1 for side in shape):
        raise ValueError(f"the shape of a codec's images is made of whole numbers above 0, not {reprlib.repr(shape)}")
    if kind == PixelCodec.kind:
        return PixelCodec(shape, **options)
    if kind == PatchCodec.kind:
        return PatchCodec(tensors["centres"], shape=shape, **options)
    return VQCodec.from_tensors(tensors=tensors, shape=shape, **options)


__all__ = [
    "ByteCodec",
    "CharCodec",
    "Codec",
    "ImageCodec",
    "ImageSpec",
    "NamedCodec",
    "PatchCodec",
    "PixelCodec",
    "TextCodec",
    "TokenizerCodec",
    "VQCodec",
    "as_pictures",
    "codec_from_dict",
    "decode_tokens",
    "is_image_codec",
    "is_text_codec",
    "named_codec",
    "text_codec",
    "text_codec_from_dict",
    "use_codec",
]
