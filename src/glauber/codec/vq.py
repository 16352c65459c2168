"""One token per small square of the image, by a network: diffusers' VQModel."""

import hashlib
import importlib
import reprlib
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glauber.codec.protocol import Ids, check_images, check_tokens
from glauber.runtime.files import JSON_BYTES, parse_json, read_bytes, read_tensors
from glauber.runtime.hub import download

CONFIG, WEIGHTS = "config.json", "diffusion_pytorch_model.safetensors"
PIXELS = 2**18
"""Pixels that the network sees at once."""
RENAMED = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}
"""Names that older weights have for the parts of an attention."""
Weights = dict[str, Tensor]
MOST_BLOCKS, MOST_LAYERS = 12, 64
"""A network is made as its config says before its weights are looked at; beyond these none is meant."""


class VQFiles(NamedTuple):
    """What a folder or a hub id of a VQModel holds."""

    network: dict[str, Any]  # the settings of a VQModel
    weights: Weights
    digest: str  # sha256 of both files

    @classmethod
    def read(cls, name: str | Path) -> "VQFiles":
        """From a folder, or from the hub as owner/name or owner/name/sub-folder. Safetensors only."""
        folder = _find(str(name))
        if not (folder / CONFIG).exists() or not (folder / WEIGHTS).exists():
            raise ValueError(f"{folder} is not a VQ codec: it needs both {CONFIG} and {WEIGHTS}")
        config = read_bytes(folder / CONFIG, JSON_BYTES)
        try:
            said = parse_json(config)
        except ValueError as error:
            raise ValueError(f"{folder / CONFIG} is damaged; get it again") from error
        try:
            if said.get("_class_name", "VQModel") != "VQModel":
                raise ValueError(f"{folder / CONFIG} describes a network of the kind {said['_class_name']}, not a VQModel")
        except AttributeError as error:
            raise ValueError(f"{folder / CONFIG} is damaged; get it again") from error
        weights = {_modern(key): tensor for key, tensor in read_tensors(folder / WEIGHTS).items()}
        if not all(tensor.is_floating_point() and bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise ValueError(f"{folder / WEIGHTS} does not hold finite floating-point numbers; get it again")
        network = {key: value for key, value in said.items() if not key.startswith("_")}
        digest = hashlib.sha256(hashlib.sha256(config).digest())
        with (folder / WEIGHTS).open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
        return cls(network, weights, digest.hexdigest())


class VQCodec:
    """An encoder's features on a coarse grid, each replaced by the nearest of V learned ones; a decoder makes pixels of them.

    The network is built when it is first needed and runs on a GPU if there is one; codes that are almost equally near may be
    told apart differently there. It sees greys 0..255 as -1..1.

    Args:
        network: the settings of a VQModel.
        weights: its parameters by name.
        shape: (H, W) or (H, W, 3), both sides a multiple of the factor by which the network shrinks.
    """

    kind: ClassVar[str] = "vq"

    def __init__(self, network: dict[str, Any], weights: Weights, shape: tuple[int, ...]):
        channels, factor = vq_channels(network), vq_factor(network)
        if len(shape) != (2 if channels == 1 else 3) or shape[2:] not in ((), (3,)):
            wanted = "grey" if channels == 1 else "colour"
            raise ValueError(f"this VQ codec takes {wanted} images, not those of shape {'×'.join(map(str, shape))}")
        require_tiling(factor, shape)
        self.network, self.weights, self.shape = dict(network), weights, tuple(shape)
        self.grid = (shape[0] // factor, shape[1] // factor)
        self.vocab = vq_vocab(network)
        self._batch = max(1, PIXELS // (shape[0] * shape[1]))
        self._built: Any = None

    @classmethod
    def load(cls, name: str | Path, size: int) -> "VQCodec":
        """From a folder or the hub (see `VQFiles.read`), for images of size × size."""
        files = VQFiles.read(name)
        return cls(files.network, files.weights, (size, size) if vq_channels(files.network) == 1 else (size, size, 3))

    @torch.no_grad()
    def encode(self, images: np.ndarray) -> Tensor:
        pixels = torch.from_numpy(check_images(images, self.shape))
        tokens = torch.empty(len(pixels), self.grid[0] * self.grid[1], dtype=torch.int64)
        for start in range(0, len(pixels), self._batch):
            part = slice(start, start + self._batch)
            latents = self._network.encode(to_signal(pixels[part]).to(self._network.device)).latents
            tokens[part] = self._network.quantize(latents)[2][2].view(len(latents), -1).cpu()
        return tokens

    @torch.no_grad()
    def decode(self, tokens: Ids) -> np.ndarray:
        rows, columns = self.grid
        tokens = check_tokens(tokens, self.vocab, rows * columns)
        pixels = torch.empty(len(tokens), *self.shape, dtype=torch.uint8)
        for start in range(0, len(tokens), self._batch):
            part = slice(start, start + self._batch)
            here = tokens[part].to(self._network.device)
            shape = (len(here), rows, columns, self._network.quantize.vq_embed_dim)
            signal = self._network.decode(here, force_not_quantize=True, shape=shape).sample
            pixels[part] = to_pixels(signal).view(len(here), *self.shape)
        return pixels.numpy()

    @property
    def _network(self) -> Any:
        if self._built is None:
            built = build_vq(self.network, {name: tensor.float() for name, tensor in self.weights.items()})
            self._built = built.to("cuda" if torch.cuda.is_available() else "cpu")
        return self._built

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "shape": list(self.shape), "network": self.network}

    def tensors(self) -> dict[str, Tensor]:
        """By name with / for the dots, which a module's own tensors may not have in their names."""
        return {name.replace(".", "/"): tensor for name, tensor in self.weights.items()}

    @classmethod
    def from_tensors(cls, network: dict[str, Any], tensors: dict[str, Tensor], shape: tuple[int, ...]) -> "VQCodec":
        """The inverse of `to_dict` and `tensors`."""
        return cls(network, {name.replace("/", "."): tensor for name, tensor in tensors.items()}, shape)


def vq_channels(network: dict[str, Any]) -> int:
    """1 or 3, of the images that such a VQModel takes and gives."""
    channels: int = network.get("in_channels", 3)
    if channels not in (1, 3) or network.get("out_channels", 3) != channels:
        raise ValueError(f"a VQ codec takes and gives images of 1 or 3 channels, and not from {channels} to another number")
    return channels


def vq_factor(network: dict[str, Any]) -> int:
    """How many pixels a side become one token: each block but the last halves the image."""
    blocks = network.get("block_out_channels", [64])
    if not isinstance(blocks, (list, tuple)) or not blocks:
        raise ValueError(f"block_out_channels of a VQ codec is a list of numbers, not {reprlib.repr(blocks)}")
    numbers = *blocks, network.get("norm_num_groups", 32), network.get("latent_channels", 3)
    if not all(type(number) is int and number > 0 for number in numbers):
        raise ValueError("block_out_channels, norm_num_groups and latent_channels of a VQ codec are whole numbers above 0")
    if len(blocks) > MOST_BLOCKS or network.get("layers_per_block", 1) not in range(1, MOST_LAYERS + 1):
        raise ValueError(f"a VQ codec has at most {MOST_BLOCKS} blocks, of at most {MOST_LAYERS} layers")
    return 1 << (len(blocks) - 1)


def vq_vocab(network: dict[str, Any]) -> int:
    """V, the number of codes."""
    vocab = network.get("num_vq_embeddings", 256)
    if type(vocab) is not int or vocab < 2:
        raise ValueError(f"num_vq_embeddings of a VQ codec is a whole number above 1, not {vocab!r}")
    return vocab


def require_tiling(factor: int, shape: tuple[int, ...]) -> None:
    """Refuse sides that the network would not divide evenly."""
    if any(side < factor or side % factor for side in shape[:2]):
        raise ValueError(
            f"this VQ codec makes a token of {factor}×{factor} pixels, which do not tile images of {shape[1]}×{shape[0]}; "
            f"choose a size that is a multiple of {factor}"
        )


def build_vq(network: dict[str, Any], weights: Weights | None = None) -> Any:
    """A VQModel that decodes ids: with these weights, ready to use, or with random ones, to be trained."""
    try:
        made: Any = importlib.import_module("diffusers").VQModel
    except ImportError as error:
        raise ImportError(f"VQ codecs need diffusers: pip install 'glauber[image]' ({error})") from error
    try:
        with torch.device("cpu" if weights is None else "meta"):
            built = made(**network | {"lookup_from_codebook": True})
        if weights is not None:
            built.load_state_dict(weights, assign=True)
            built.eval().requires_grad_(False)
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError("the VQ codec's weights and config do not fit each other, or not a VQModel; get it again") from error
    return built


def to_signal(pixels: Tensor) -> Tensor:
    """uint8 (N, H, W) or (N, H, W, 3) → float (N, C, H, W) in [-1, 1]."""
    signal = pixels.float() / 127.5 - 1
    return signal[:, None] if signal.dim() == 3 else signal.permute(0, 3, 1, 2).contiguous()


def to_pixels(signal: Tensor) -> Tensor:
    """(N, C, H, W) → uint8 (N, H, W, C), on the CPU; what lies outside [-1, 1] becomes black or white."""
    return ((signal.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).cpu()


def _find(name: str) -> Path:
    """The folder, fetched from the hub if need be."""
    if Path(name).exists():
        return Path(name)
    owner, model, *inside = [*name.split("/"), ""][:3] if 1 <= name.count("/") <= 2 else ("", "")
    if not owner or not model or name.startswith("."):
        raise ValueError(
            f"there is no VQ codec {name!r}: give a folder that holds {CONFIG} and {WEIGHTS}, or a hub id owner/name"
        )
    try:
        paths = [download(f"{owner}/{model}", file, subfolder=inside[0] or None) for file in (CONFIG, WEIGHTS)]
    except Exception as error:  # the hub client has many kinds of failure, all of them the same to the user
        raise ValueError(f"no folder {name!r} here, and the hub did not give {CONFIG} and {WEIGHTS} for it") from error
    return paths[0].parent


def _modern(name: str) -> str:
    for old, new in RENAMED.items():
        name = name.replace(old, new)
    return name
