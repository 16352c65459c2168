"""How different two images look: LPIPS on a VGG that tolerates small shifts (arXiv 2207.13686)."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKAGE = "stlpips_pytorch"
FILE = Path("weights", "vST0.0", "vgg_shift_tolerant.pth")
CONVOLUTIONS = ((0, 2), (6, 8), (12, 14, 16), (20, 22, 24), (28, 30, 32))
"""The places of each stage's convolutions in the file."""


class Perceptual(nn.Module):
    """LPIPS of images (N, 3, H, W) in [-1, 1], as (N,): 0 for the same image. Grey images count as colour."""

    def __init__(self, weights: dict[str, Tensor]):
        super().__init__()
        for name, tensor in weights.items():
            self.register_buffer(name.replace(".", "/"), tensor.float())

    @classmethod
    def installed(cls) -> "Perceptual":
        """With the weights of the package stlpips-pytorch; none of its code is run."""
        found = find_spec(PACKAGE)
        if found is None or not found.submodule_search_locations:
            raise ImportError("the perceptual loss needs the weights of stlpips-pytorch: pip install --no-deps stlpips-pytorch")
        return cls(torch.load(Path(found.submodule_search_locations[0]) / FILE, map_location="cpu", weights_only=True))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        total = torch.zeros(len(first), device=first.device)
        for stage, (a, b) in enumerate(zip(self._features(first), self._features(second), strict=True)):
            total = total + F.conv2d((_unit(a) - _unit(b)) ** 2, self._get(f"lin{stage}/model/1/weight")).mean((1, 2, 3))
        return total

    def _features(self, image: Tensor) -> Iterator[Tensor]:
        """After each of the five stages."""
        x = (image.expand(-1, 3, -1, -1) - self._get("scaling_layer/shift")) / self._get("scaling_layer/scale")
        for stage, places in enumerate(CONVOLUTIONS, 1):
            if stage > 1:  # halve: the largest of each 2×2, blurred, every second one
                blur = self._get(f"net/slice{stage}/{places[0] - 1}/filt")
                x = F.conv2d(F.pad(F.max_pool2d(x, 2, 1), (2, 2, 2, 2), "reflect"), blur, stride=2, groups=len(blur))
            for place in places:
                weight, bias = (self._get(f"net/slice{stage}/{place}/{part}") for part in ("weight", "bias"))
                x = F.relu(F.conv2d(x, weight, bias, padding=1))
            yield x

    def _get(self, name: str) -> Tensor:
        return self.get_buffer(name)


def _unit(features: Tensor) -> Tensor:
    """Of length 1 at every site."""
    return features / (features.square().sum(1, keepdim=True) + 1e-12).sqrt()
