"""InceptionV3 as published Fréchet distances use it: images (N, 3, 299, 299) of about [-1, 1] → features (N, 2048).

It is the network of 2015 with its two known quirks: the averages of 3×3 leave the border out, and the last block pools by the
maximum. Normalisation is folded into the convolutions, so each is a weight and a bias.
"""

import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glauber.runtime.files import read_tensors, require_file, unpacked_size

_ODD = (KeyError, TypeError, AttributeError, IndexError, EOFError, OverflowError, MemoryError, RecursionError)
"""What a pickle of something else may lead to."""
EPSILON = 1e-3  # of its normalisation
PARTS = ("weight", "beta", "mean", "var")


class Convolution(nn.Conv2d):
    """With the rectifier after it."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu_()


class Branches(nn.ModuleList):
    """Each sees the same input; their channels are stacked."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self], 1)


def _same(channels: int, *steps: tuple[int, int | tuple[int, int]]) -> list[nn.Module]:
    """Convolutions (channels out, kernel) that keep the size."""
    made: list[nn.Module] = []
    for out, kernel in steps:
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        made.append(Convolution(channels, out, sides, padding=(sides[0] // 2, sides[1] // 2)))
        channels = out
    return made


def _average() -> nn.Module:
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def _chain(*parts: Iterable[nn.Module]) -> nn.Sequential:
    return nn.Sequential(*(module for part in parts for module in part))


def _squares(channels: int, pooled: int) -> Branches:
    """At 35×35."""
    return Branches(
        [
            _chain(_same(channels, (64, 1))),
            _chain(_same(channels, (48, 1), (64, 5))),
            _chain(_same(channels, (64, 1), (96, 3), (96, 3))),
            _chain([_average()], _same(channels, (pooled, 1))),
        ]
    )


def _lines(channels: int, inner: int) -> Branches:
    """At 17×17: rows and columns of seven instead of squares."""
    across, down = (1, 7), (7, 1)
    return Branches(
        [
            _chain(_same(channels, (192, 1))),
            _chain(_same(channels, (inner, 1), (inner, across), (192, down))),
            _chain(_same(channels, (inner, 1), (inner, down), (inner, across), (inner, down), (192, across))),
            _chain([_average()], _same(channels, (192, 1))),
        ]
    )


def _forks(channels: int, pool: nn.Module) -> Branches:
    """At 8×8: rows and columns of three side by side."""

    def fork() -> Branches:
        return Branches([*_same(384, (384, (1, 3))), *_same(384, (384, (3, 1)))])

    return Branches(
        [
            _chain(_same(channels, (320, 1))),
            _chain(_same(channels, (384, 1)), [fork()]),
            _chain(_same(channels, (448, 1), (384, 3)), [fork()]),
            _chain([pool], _same(channels, (192, 1))),
        ]
    )


class InceptionV3(nn.Sequential):
    """The features before its last layer."""

    def __init__(self) -> None:
        super().__init__(
            Convolution(3, 32, 3, 2),
            Convolution(32, 32, 3),
            *_same(32, (64, 3)),
            nn.MaxPool2d(3, 2),
            *_same(64, (80, 1)),
            Convolution(80, 192, 3),
            nn.MaxPool2d(3, 2),
            _squares(192, 32),
            _squares(256, 64),
            _squares(288, 64),
            Branches(
                [
                    Convolution(288, 384, 3, 2),
                    _chain(_same(288, (64, 1), (96, 3)), [Convolution(96, 96, 3, 2)]),
                    nn.MaxPool2d(3, 2),
                ]
            ),
            *(_lines(768, inner) for inner in (128, 160, 160, 192)),
            Branches(
                [
                    _chain(_same(768, (192, 1)), [Convolution(192, 320, 3, 2)]),
                    _chain(_same(768, (192, 1), (192, (1, 7)), (192, (7, 1))), [Convolution(192, 192, 3, 2)]),
                    nn.MaxPool2d(3, 2),
                ]
            ),
            _forks(1280, _average()),
            _forks(2048, nn.MaxPool2d(3, 1, 1)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )


def read_inception(path: Path) -> InceptionV3:
    """From .safetensors of `experiments/inception.py`, or from a published TorchScript archive, whose code is not run."""
    network = InceptionV3()
    try:
        require_file(path)
        network.load_state_dict(folded(archived(path)) if zipfile.is_zipfile(path) else read_tensors(path))
    except (*_ODD, OSError, RuntimeError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is missing, damaged, or not an InceptionV3 of 2015; docs/evaluating.md says where to get one"
        ) from error
    return network.requires_grad_(False).eval()


def folded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of an `InceptionV3` from a published one's: weight, beta, mean and var of each convolution, in their order.

    (W x - mean) / √(var + ε) + beta  =  W' x + b
    """
    names = [name.removesuffix(".beta") for name in state if name.endswith(".beta")]
    ours = list(InceptionV3().state_dict())
    if len(ours) != 2 * len(names):
        raise ValueError(f"an InceptionV3 has {len(ours) // 2} convolutions, not {len(names)}")
    made: dict[str, Tensor] = {}
    for k, name in enumerate(names):
        weight, beta, mean, var = (state[f"{name}.{part}"].double() for part in PARTS)
        scale = (var + EPSILON).rsqrt()
        made[ours[2 * k]] = (weight * scale[:, None, None, None]).float()
        made[ours[2 * k + 1]] = (beta - mean * scale).float()
    return made


def archived(path: Path) -> dict[str, Tensor]:
    """The float32 tensors of a TorchScript archive by their names. The program in it is neither compiled nor run."""
    if unpacked_size(path) > path.stat().st_size:
        raise ValueError(f"{path} is packed, which no TorchScript archive is")
    with zipfile.ZipFile(path) as archive:
        index = next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")), None)
        if index is None:
            raise ValueError(f"{path} is a zip file, but not a TorchScript archive")
        with archive.open(index) as file:
            root = _Reader(file, archive, index.removesuffix(".pkl")).load()
    found: dict[str, Tensor] = {}

    def walk(part: Any, name: str) -> None:
        if isinstance(part, Tensor):
            found[name] = part
        elif isinstance(part, _Part):
            for key, value in vars(part).items():
                walk(value, f"{name}.{key}" if name else key)

    walk(root, "")
    return found


class _Part:
    """A module of the archive: its attributes."""


class _Reader(pickle.Unpickler):
    """Knows tensors, lists and modules; a pickle that asks for anything else is refused, so it can run nothing."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str):
        super().__init__(file)
        self.archive, self.folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("__torch__"):
            return _Part
        known = {"FloatStorage": torch.float32, "_rebuild_tensor_v2": _rebuilt, "OrderedDict": dict, "build_intlist": list}
        if name not in known:
            raise pickle.UnpicklingError(f"a network's tensors need no {module}.{name}")
        return known[name]

    def persistent_load(self, pid: Any) -> Tensor:
        _, dtype, key, *_ = pid
        return torch.frombuffer(bytearray(self.archive.read(f"{self.folder}/{key}")), dtype=dtype)


def _rebuilt(storage: Tensor, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    return storage.as_strided(shape, stride, offset)
