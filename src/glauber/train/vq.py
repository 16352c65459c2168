"""The training steps of a VQ codec: reconstruction, commitment, and optionally a perceptual and an adversarial loss."""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glauber.codec.perceptual import Perceptual
from glauber.codec.vq import MOST_BLOCKS, VQCodec, build_vq, require_tiling, to_signal
from glauber.runtime.memory import require_memory

COMMITMENT = 0.25
MEMORY = 0.97
"""Of a code's running mean, how much stays at each step."""
DEAD = 0.03
"""A code used less than so much of its fair share starts anew as some feature of the batch."""
ADVERSARY_FROM, ADVERSARY_WEIGHT = 0.25, 0.2
"""The critic joins after this part of the steps; its gradient has this size against that of the reconstruction."""


@dataclass(frozen=True)
class VQSettings:
    """How large the network is and how it is trained."""

    codes: int = 512
    factor: int = 8
    """Pixels a side that become one token: 1, 2, 4, ..."""
    width: int = 32
    """Channels of the first block; the later ones have up to four times as many."""
    dim: int = 4
    """Of a code."""
    steps: int = 10_000
    batch: int = 64
    lr: float = 1e-3
    perceptual: bool = False
    adversarial: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("width", "dim", "steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.codes < 2:
            raise ValueError(f"a codec needs at least 2 codes, not {self.codes}")
        if self.factor < 1 or self.factor & (self.factor - 1):
            raise ValueError(f"the factor is a power of two, since each block halves the image, not {self.factor}")
        if not 0 < self.lr < 1:
            raise ValueError(f"the learning rate must lie between 0 and 1, not {self.lr}")

    def memory(self, shape: tuple[int, ...]) -> float:
        """Bytes that training on images of this shape takes, at least: large convolutions, and the first block's features."""
        blocks = min(int(math.log2(self.factor)) + 1, MOST_BLOCKS)
        channels = [self.width * min(4, 2**block) for block in range(blocks)]
        weights: int = 54 * sum(wide**2 for wide in channels) + 72 * channels[-1] ** 2 + self.codes * self.dim
        return 4.0 * (4 * weights + 8 * self.batch * shape[0] * shape[1] * self.width)

    def network(self, channels: int) -> dict[str, Any]:
        """The settings of the VQModel."""
        blocks = int(math.log2(self.factor)) + 1
        return {
            "in_channels": channels,
            "out_channels": channels,
            "down_block_types": ["DownEncoderBlock2D"] * blocks,
            "up_block_types": ["UpDecoderBlock2D"] * blocks,
            "block_out_channels": [self.width * min(4, 2**block) for block in range(blocks)],
            "layers_per_block": 1,
            "latent_channels": self.dim,
            "vq_embed_dim": self.dim,
            "num_vq_embeddings": self.codes,
            "norm_num_groups": math.gcd(32, self.width),
            "lookup_from_codebook": True,
        }


class Critic(nn.Sequential):
    """Classifies every patch of an image: original or decoded."""

    def __init__(self, channels: int, width: int = 64):
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
        for wide in (width, 2 * width):
            layers += [nn.Conv2d(wide, 2 * wide, 4, 2, 1), nn.GroupNorm(8, 2 * wide), nn.LeakyReLU(0.2)]
        super().__init__(*layers, nn.Conv2d(4 * width, 1, 3, 1, 1))


class VQTrainer:
    """The network, its codes and all that changes as they are trained. The codes are running means of what they stand for.

    Each step is a function of the state, the images and the step's number, so that training can go on anywhere.

    Args:
        shape: of the images, (H, W) or (H, W, 3).
    """

    def __init__(self, settings: VQSettings, shape: tuple[int, ...]):
        require_tiling(settings.factor, shape)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        then = "choose a smaller width, batch or size, or fewer codes"
        require_memory(settings.memory(shape), "training this codec", then, self.device)
        self.settings, self.shape, self.step = settings, tuple(shape), 0
        channels = 1 if len(shape) == 2 else shape[2]
        self.config = settings.network(channels)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network = build_vq(self.config).to(self.device).train()
            self.critic = Critic(channels).to(self.device) if settings.adversarial else None
        self.codes: Tensor = self.network.quantize.embedding.weight.requires_grad_(False)
        self.uses = torch.zeros(settings.codes, device=self.device)  # running means: how often a code is used in a batch,
        self.sums = torch.zeros_like(self.codes)  # and the sum of what it stands for
        self.perceptual = Perceptual.installed().to(self.device) if settings.perceptual else None
        trained = [p for p in self.network.parameters() if p.requires_grad]
        self.optimisers = {"network": torch.optim.Adam(trained, betas=(0.9, 0.99))}
        if self.critic is not None:
            self.optimisers["critic"] = torch.optim.Adam(self.critic.parameters(), betas=(0.5, 0.9))

    def train_step(self, images: np.ndarray) -> dict[str, Tensor]:
        """One step on images drawn from these, uint8 (N, *shape); the parts of its loss, each a number on the device."""
        draws = torch.Generator().manual_seed((self.settings.seed << 32) + self.step)
        chosen = torch.randint(len(images), (self.settings.batch,), generator=draws).sort().values
        real = to_signal(torch.from_numpy(np.ascontiguousarray(images[chosen.numpy()])).to(self.device))
        with self._half():
            latents = self.network.encode(real).latents.float()
        features = latents.permute(0, 2, 3, 1).reshape(-1, self.settings.dim)
        nearest = self._learn_codes(features.detach(), draws)
        quantised = self.codes[nearest].view(len(real), *latents.shape[2:], -1).permute(0, 3, 1, 2)
        with self._half():
            straight = latents + (quantised - latents).detach()  # the gradient passes as if nothing were rounded
            made = self.network.decoder(self.network.post_quant_conv(straight)).float()
        parts = {"l1": (made - real).abs().mean(), "commitment": (latents - quantised).square().mean()}
        if self.perceptual is not None:
            with self._half():
                parts["perceptual"] = self.perceptual(made, real).float().mean()
        loss = parts["l1"] + parts.get("perceptual", 0)
        if self.critic is not None and self.step >= ADVERSARY_FROM * self.settings.steps:
            with self._half():
                parts["adversarial"] = -self.critic(made).float().mean()
            loss = loss + self._balance(loss, parts["adversarial"]) * parts["adversarial"]
        self._descend("network", loss + COMMITMENT * parts["commitment"])
        if "adversarial" in parts:
            parts["critic"] = self._train_critic(real, made.detach())
        self.step += 1
        return {name: part.detach() for name, part in parts.items()}

    def codec(self) -> VQCodec:
        """What it has learned so far."""
        weights = {name: tensor.detach().cpu().clone() for name, tensor in self.network.state_dict().items()}
        return VQCodec(self.config, weights, self.shape)

    def state(self) -> dict[str, Tensor]:
        """All that changes, by name, but the step."""
        modules = {"network": self.network} | ({} if self.critic is None else {"critic": self.critic})
        found = {"uses": self.uses, "sums": self.sums}
        for kind, module in modules.items():
            found |= {f"{kind}.{name}": tensor for name, tensor in module.state_dict().items()}
            for number, moments in self.optimisers[kind].state_dict()["state"].items():
                found |= {f"{kind}_optimiser.{number}.{name}": tensor for name, tensor in moments.items()}
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()}

    def load_state(self, tensors: dict[str, Tensor], step: int) -> None:
        """The inverse of `state`, for the same settings and shape."""
        self.step = step
        self.uses.copy_(tensors["uses"])
        self.sums.copy_(tensors["sums"])
        for kind, module in (("network", self.network), ("critic", self.critic)):
            if module is None:
                continue
            module.load_state_dict(_part(tensors, f"{kind}."))
            moments: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _part(tensors, f"{kind}_optimiser.").items():
                number, _, moment = name.partition(".")
                moments.setdefault(int(number), {})[moment] = tensor
            self.optimisers[kind].load_state_dict(self.optimisers[kind].state_dict() | {"state": moments})

    @torch.no_grad()
    def _learn_codes(self, features: Tensor, draws: torch.Generator) -> Tensor:
        """The nearest code of each feature (n, dim), after the codes have moved to the running mean of what they stand for."""
        fair = len(features) / len(self.codes)
        some = features[torch.randint(len(features), (len(self.codes),), generator=draws).to(self.device)]
        if self.step < 0.8 * self.settings.steps:  # in the end the codes that are there settle
            dead = self.uses < DEAD * fair
            self.uses.masked_fill_(dead, fair)
            self.sums.copy_(torch.where(dead[:, None], some * fair, self.sums))
            self.codes.copy_(torch.where(dead[:, None], some, self.codes))
        nearest = torch.cdist(features, self.codes).argmin(1)
        self.uses.lerp_(torch.bincount(nearest, minlength=len(self.codes)).float(), 1 - MEMORY)
        self.sums.lerp_(torch.zeros_like(self.sums).index_add_(0, nearest, features), 1 - MEMORY)
        self.codes.copy_(torch.where(self.uses[:, None] > 1e-6, self.sums / self.uses[:, None], self.codes))
        return nearest

    def _balance(self, loss: Tensor, adversarial: Tensor) -> Tensor:
        """The weight that gives the critic's gradient at the last layer its due size."""
        last = self.network.decoder.conv_out.weight
        ours, theirs = (torch.autograd.grad(part, last, retain_graph=True)[0].norm() for part in (loss, adversarial))
        return torch.as_tensor(ADVERSARY_WEIGHT * ours / (theirs + 1e-6)).clamp(max=1e3).detach()

    def _train_critic(self, real: Tensor, made: Tensor) -> Tensor:
        assert self.critic is not None
        with self._half():
            on_real, on_made = self.critic(real).float(), self.critic(made).float()
        loss = (F.relu(1 - on_real) + F.relu(1 + on_made)).mean() / 2
        self._descend("critic", loss)
        return loss

    def _descend(self, kind: str, loss: Tensor) -> None:
        optimiser, done = self.optimisers[kind], self.step / self.settings.steps
        warm = min(1.0, (self.step + 1) / min(200, max(1, self.settings.steps // 20)))
        lr = self.settings.lr * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = lr
            nn.utils.clip_grad_norm_(group["params"], 1.0)
        optimiser.step()

    def _half(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")


def _part(tensors: dict[str, Tensor], start: str) -> dict[str, Tensor]:
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
