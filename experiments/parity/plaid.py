"""Plaid against igul222/plaid: the terms of its bound, the gradients of its loss, its guesses and its sampler's steps.

The official programs are functions within functions that want a GPU; here they run as they are, on the CPU and in float64, up
to where they would train or print. Their learned noise schedule is put straight, as ours is, and the network has no blocks.
"""

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import Findings, checkout
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glauber import TransformerConfig
from glauber.method.plaid import diffusion, prior, reconstruction, step
from glauber.method.plaid_network import Plaid, gamma

STUBS = (
    *("fire", "matplotlib", "matplotlib.pyplot", "mup", "orjson", "apex", "apex.normalization", "einops", "tqdm"),
    *("flash_attn", "flash_attn.flash_attn_interface", "flash_attn.ops", "flash_attn.ops.fused_dense"),
)
VOCAB, LENGTH, ROWS, DIMENSION = 23, 9, 64, 16
SHAPE = {"dim": 32, "n_blocks": 0, "n_heads": 2, "embed_dim": DIMENSION}
CALLS, TEMPERATURE = 6, 0.9


class Reached(Exception):
    """What was wanted of an official program is there."""


class InDouble(TorchFunctionMode):
    """What is to be on a GPU stays here, float32 is float64, and the noise that is drawn is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = list[Tensor]()

    def __torch_function__(self, function: Any, types: Any, inputs: Any = (), options: Any = None) -> Any:
        options = {name: torch.float64 if value is torch.float32 else value for name, value in (options or {}).items()}
        if str(options.get("device")).startswith("cuda"):
            options["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return inputs[0]
        if function is torch.set_default_device:
            return None
        function = torch.Tensor.double if function is torch.Tensor.float else function
        found = function(*(torch.float64 if value is torch.float32 else value for value in inputs), **options)
        if function is torch.randn or function is torch.randn_like:
            self.noise.append(found.clone())
        return found


class Straight(nn.Module):
    """γ̃(t) = t, and the times that it was asked about."""

    def forward(self, t: Tensor) -> Tensor:
        return t * 1.0


class Around(Plaid):
    """Our network around the official one: its logits are those of that one before the evidence is added."""

    def __init__(self, model: nn.Module, matrix: Tensor):
        super().__init__(TransformerConfig(VOCAB, LENGTH, width=8, layers=1, heads=1), dimension=DIMENSION)
        self.embed.weight = nn.Parameter(matrix.detach().clone())
        self.official: Callable[..., Tensor] = lambda *inputs: model(*inputs)[0]  # a function, so that it is no module of ours

    def tokens(self, z: Tensor, t: Tensor, guess: Tensor) -> Tensor:
        logits: Tensor = self.official(z, gamma(t), nn.functional.normalize(self.embed.weight.detach(), dim=-1), 0.0, guess)
        return logits


def compare(path: Path) -> Findings:
    """As its programs' defaults have it, but for the straight schedule and the network's size."""
    found = Findings("Plaid", 1e-7)  # it divides embeddings by their length and 1e-8
    with checkout(path, *STUBS), quiet(), InDouble() as mode:
        import lib.datasets
        import lib.models
        import lib.utils
        import mup
        import sample
        import train

        mup.MuReadout = type("MuReadout", (nn.Linear,), {"output_mult": 1.0, "width_mult": lambda self: 1.0})
        lib.models.NoiseSchedule = Straight
        train.DDP = lambda module, **_: module
        x0 = torch.randint(VOCAB, (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))
        forward, modules = program(train, lib, x0)
        terms(found, forward, modules, x0, mode)
        gradients(found, forward, modules, x0, mode)
        steps(found, sample, lib, modules, mode)
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The official programs print; and their wish for another default device is not granted."""
    granted: Any = torch.set_default_device
    torch.set_default_device = lambda device: None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        torch.set_default_device = granted


def program(train: Any, lib: Any, x0: Tensor) -> tuple[Any, dict[str, Any]]:
    """The official `forward` and its modules, with random weights."""
    kept = []

    def train_loop(forward: Any, *_: Any, **__: Any) -> None:
        kept.append(forward)
        raise Reached

    words = {str(k): k for k in range(VOCAB)}
    lib.datasets.REGISTRY["ours"] = lambda *_: ((iter([x0]), iter([]), iter([])), (words, words))
    lib.utils.train_loop = train_loop
    with contextlib.suppress(Reached):
        train.main(**SHAPE, dataset="ours", batch_size=ROWS, seq_len=LENGTH, n_short_seqs=1, save_weights=False)
    modules = inspect.getclosurevars(kept[0]).nonlocals["ddp_modules"]
    torch.manual_seed(0)
    for name in ("embedding_matrix", "model"):
        for parameter in modules[name].parameters():
            parameter.data.normal_(std=0.5)
    return kept[0], modules


def terms(found: Findings, forward: Any, modules: dict[str, Any], x0: Tensor, mode: InDouble) -> None:
    """In evaluation one row in eight is for the reconstruction, and all are self-conditioned."""
    mode.noise.clear()
    np.random.seed(3)  # which their program draws its times from
    with torch.no_grad():
        loss, _, ends, start, *_ = forward(x_eval=x0)
    np.random.seed(3)
    first = ROWS // 8 + np.random.binomial(1, 0.0)
    t = torch.cat([torch.zeros(first), (torch.arange(ROWS - first) + np.random.uniform()) / (ROWS - first)])
    network = Around(modules["model"], modules["embedding_matrix"].matrix)
    with torch.no_grad():
        answer = network(x0, t, mode.noise[0], network(x0, t, mode.noise[0]).guess)
        inner = diffusion(answer, t)[first:].mean() / LENGTH
        found.compare("reconstruction", ends, reconstruction(answer, x0)[:first].mean() / LENGTH)
        found.compare("prior", start, prior(answer.clean).mean() / LENGTH)
        found.compare("diffusion", loss - ends - start, inner)


def gradients(found: Findings, forward: Any, modules: dict[str, Any], x0: Tensor, mode: InDouble) -> None:
    """In training, at a step after its warm-up: at first one row is for the reconstruction, and every fourth is
    self-conditioned, which gives the embeddings no gradient."""
    model, matrix = modules["model"], modules["embedding_matrix"].matrix
    watched = [parameter for parameter in model.parameters() if parameter.requires_grad]
    mode.noise.clear()
    np.random.seed(4)
    after = 10**6
    forward(step=after, accum_step=0, accum_total=1)[0].backward()
    theirs = [matrix.grad.clone(), *(parameter.grad.clone() for parameter in watched)]
    model.zero_grad()

    np.random.seed(4)
    conditioned = torch.arange(ROWS) % 4 == np.random.randint(4)
    times = (torch.arange(ROWS - 1) + np.random.RandomState(after).uniform()) / (ROWS - 1)
    t, noise, network = torch.cat([torch.zeros(1), times]), mode.noise[0], Around(model, matrix)
    with torch.no_grad():
        guess = torch.where(conditioned[:, None, None], network(x0, t, noise).guess, 0.0)
    answer = network(x0, t, noise, guess, conditioned)
    loss = reconstruction(answer, x0)[0] + diffusion(answer, t)[1:].mean() + prior(answer.clean).mean()
    (loss / LENGTH).backward()  # type: ignore[no-untyped-call]
    found.compare("gradient of the embeddings", theirs[0], gradient_of(network.embed.weight))
    for name, mine, other in zip(dict(model.named_parameters()), watched, theirs[1:], strict=True):
        found.compare(f"gradient of {name}", other, gradient_of(mine))


def gradient_of(weight: Tensor) -> Tensor:
    """What `backward` left."""
    assert weight.grad is not None
    return weight.grad


def steps(found: Findings, sample: Any, lib: Any, modules: dict[str, Any], mode: InDouble) -> None:
    """Its unconditional sampler, until it would decode: each state and guess from those before."""
    seen = []

    class Watched(lib.models.DiffusionModel):  # type: ignore[misc]
        def forward(self, z: Tensor, **inputs: Any) -> Any:
            answer = super().forward(z=z, **inputs)
            seen.append((z.clone(), inputs["x_selfcond"].clone(), answer[1].clone()))
            return answer

    def decode(*_: Any, **__: Any) -> None:
        raise Reached

    states = {f"{name}.pt": module.state_dict() for name, module in modules.items()}
    load, official = torch.load, lib.models.DiffusionModel
    lib.models.DiffusionModel, torch.load = Watched, lambda name, **_: states[Path(name).name]
    lib.datasets.openwebtext2_tokenizer = lambda: SimpleNamespace(decode=decode)
    sample.tqdm = SimpleNamespace(tqdm=lambda times: times)
    mode.noise.clear()
    try:
        with contextlib.suppress(Reached):
            sample.main(
                **SHAPE, vocab_size=VOCAB, weights_path="", n_samples=2, sampling_timesteps=CALLS, score_temp=TEMPERATURE
            )
    finally:
        lib.models.DiffusionModel, torch.load = official, load
    noise, times = mode.noise[1 - CALLS :], torch.linspace(1.0, 0.0, CALLS).tolist()
    network = Around(modules["model"], modules["embedding_matrix"].matrix)
    for k, t in enumerate(times):
        (z, condition, guess), after = seen[k], seen[k + 1][0]
        with torch.no_grad():
            found.compare(f"guess at {t:.1f}", guess, network(z, torch.full((2,), t), None, condition).guess)
        if t > 0:
            mean, spread = step(z, guess, t, t - 1 / CALLS, TEMPERATURE)
            found.compare(
                f"step from {t:.1f} to {t - 1 / CALLS:.3f}, temperature {TEMPERATURE}", after, mean + spread * noise[k]
            )
