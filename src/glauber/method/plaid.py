"""Plaid, Gaussian diffusion over learned embeddings (Gulrajani and Hashimoto, 2023, arXiv 2305.18619), a variational diffusion
model (Kingma et al., 2021) of rows of vectors.

z_t = α_t E(x) + σ_t ε with α² = sigmoid(-γ), σ² = sigmoid(γ), where γ goes from γ_0 to γ_1 on a straight line; the paper learns
its bounds and its shape. E has unit rows. The network answers with a law over the tokens of each site, to which the site's own
evidence log N(z; α E(v), σ²) is added (the paper's output prior), and its guess x̂ at E(x) is the mean of E under that law.
"""

import math
from typing import Any

import torch
from torch import Tensor

from glauber.chain import Truncation
from glauber.conditional import Layout, Transformer, TransformerConfig
from glauber.method.base import BoundOptions, Bounds, Capabilities, LossOptions
from glauber.method.diffusion import StepsMethod, draw_times, integral, steps_plan, whole_rows, whole_start
from glauber.method.plaid_network import DIMENSION, GAMMA, Answer, Plaid, gamma
from glauber.method.sampling import Request, Run, Samples, SamplingPlan
from glauber.process import Process, Schedule, Tokens, as_tokens
from glauber.process.draws import Generator, KeyedGenerator, categorical, uniform
from glauber.runtime.progress import watched

RECONSTRUCTED = 1 / 8  # share of the rows that train the reconstruction; the others train the diffusion
SELF_CONDITIONED = 4  # every so-many-th row of the whole batch is


class EmbeddingDiffusion(StepsMethod):
    """The method: its loss, its bound and its sampler. The network is a `Plaid` of the same dimension d."""

    name = "plaid"
    can = Capabilities(samplers=("ancestral",), fewer_calls=True)

    def __init__(self, dimension: int = DIMENSION):
        self.dimension = dimension

    def network(self, config: TransformerConfig) -> Transformer:
        return Plaid(config, self.dimension)

    def layout(self, config: TransformerConfig) -> Layout:
        return Plaid.layout(config, self.dimension)

    def loss(self, network: Any, process: Process, x0: Tokens, how: LossOptions = LossOptions()) -> Tensor:
        """The variational bound per token: a row trains its reconstruction, or its diffusion at a low-discrepancy time.

        Self-conditioned rows are given the guess of a first pass. A GPU records the step, so the first pass has always as many
        rows, ⌈B/4⌉, and with them a row that is not self-conditioned where a part of a batch holds fewer.
        """
        generator = how.generator
        x0 = process.check_tokens(x0) if how.check else as_tokens(x0)
        place = draw_times(len(x0), generator, x0.device)
        t = ((place - RECONSTRUCTED) / (1 - RECONSTRUCTED)).clamp_min(0.0)
        noise = normal((*x0.shape, self.dimension), generator, x0.device)
        conditioned = self_conditioned(len(x0), generator, x0.device)
        some = conditioned.int().argsort(descending=True, stable=True)[: -(-len(x0) // SELF_CONDITIONED)]
        guess = torch.zeros_like(noise)
        with torch.no_grad():
            first = network(x0[some], t[some], noise[some]).guess.to(guess)
            guess[some] = torch.where(conditioned[some, None, None], first, 0.0)
        answer = network(x0, t, noise, guess, conditioned)
        rest = torch.where(
            place < RECONSTRUCTED,
            reconstruction(answer, x0) / RECONSTRUCTED,
            diffusion(answer, t) / (1 - RECONSTRUCTED),
        )
        return (rest + prior(answer.clean)).sum() / x0.numel()

    @torch.no_grad()
    def bounds(self, network: Any, process: Process, x0: Tokens, how: BoundOptions = BoundOptions()) -> Bounds:
        """KL(q(z_1 | x) ‖ N(0, 1)) - E log p(x | z_0) + the diffusion in continuous time.

        Each is made twice, the second time with the first guess: the model is p(z_s | z_t), whatever came before.
        """
        clean, generator = whole_rows(self, process, x0, how), how.generator

        def term(x: Tensor, t: Tensor) -> Tensor:
            return diffusion(self.answer(network, x, t, generator), t)

        def ends(x: Tensor, t: Tensor) -> Tensor:
            answer = self.answer(network, x, torch.zeros_like(t), generator)
            return reconstruction(answer, x) + prior(answer.clean)

        inside = integral(term, clean, process.vocab, how.draws, generator)
        return Bounds({self.name: inside + integral(ends, clean, process.vocab, 1, generator)}, 2 * (how.draws + 1), False)

    def answer(self, network: Any, x: Tensor, t: Tensor, generator: Generator | None) -> Answer:
        """At tokens noised to time t."""
        noise = normal((*x.shape, self.dimension), generator, x.device)
        answer: Answer = network(x, t, noise, network(x, t, noise).guess)
        return answer

    def plan(self, own: Schedule, config: TransformerConfig, request: Request = Request()) -> SamplingPlan:
        """At least two calls: each but the last is told the guess before it, and the last draws the tokens."""
        plan = steps_plan(self, own, config, request, ("ban", "temperature"))
        if plan.calls < 2:
            raise ValueError(f"plaid makes at least 2 network calls, not {plan.calls}")
        return plan

    @torch.no_grad()
    def sample(self, network: Any, process: Process, plan: SamplingPlan, num: int | None, run: Run = Run()) -> Samples:
        """Ancestral sampling in `calls` - 1 equal steps, each told the guess before it; the last call draws the tokens.

        A `ban` gives tokens probability 0, also in the guesses. A `temperature` divides the noise that a guess implies, 0.9 in
        the paper; several as in `Truncation`.
        """
        rows, calls, generator = whole_start(self, num, run), plan.calls, run.generator
        shape, device = (rows, process.length, self.dimension), process.noise.probs.device
        ban, temperature = plan.options.get("ban", ()), plan.options.get("temperature", 1.0)
        parts: tuple[float, ...] = Truncation(temperature).temperature  # type: ignore[assignment]
        z, guess = normal(shape, generator, device), torch.zeros(shape, device=device)
        for k in watched(range(calls), run.progress, calls, "sample", "step", leave=False):
            t, s = (max(0, calls - 1 - j) / (calls - 1) for j in (k, k + 1))
            answer = network(z, torch.full((rows,), t, dtype=torch.float64, device=device), None, guess, ban=ban)
            guess, heat = answer.guess, parts[k * len(parts) // calls]
            mean, spread = step(z, guess.double(), t, s, heat)
            z = mean + spread * normal(shape, generator, device)
        return Samples(categorical(answer.log_law.double().exp(), uniform(shape[:2], generator, device)), float(calls))


def step(z: Tensor, guess: Tensor, t: float, s: float, temperature: float = 1.0) -> tuple[Tensor, float]:
    """Mean and standard deviation of q(z_s | z, x̂): α_s [(1-c)/α_t z + c x̂] and σ_s √c, with c = 1 - e^{γ_s - γ_t}.

    The noise in z as the guess has it, (z - α_t x̂) / σ_t, is divided by the temperature, and x̂ is what that leaves.
    """
    g_t, g_s = (GAMMA[0] + (GAMMA[1] - GAMMA[0]) * time for time in (t, s))
    alpha_t, alpha_s = ((1 + math.exp(g)) ** -0.5 for g in (g_t, g_s))
    c = -math.expm1(g_s - g_t)
    guess = guess / temperature + (1 - 1 / temperature) / alpha_t * z
    return alpha_s * ((1 - c) / alpha_t * z + c * guess), math.sqrt(c / (1 + math.exp(-g_s)))


def self_conditioned(rows: int, generator: Generator | None, device: torch.device) -> Tensor:
    """(rows,) bool: every SELF_CONDITIONED-th row of the whole batch, from a random one on: they see all times."""
    row = torch.arange(rows, device=device)
    if isinstance(generator, KeyedGenerator):
        row, first = generator.rows.to(device), generator.shared().to(device)
    else:
        first = uniform((1,), generator, device)
    chosen: Tensor = (row + (first * SELF_CONDITIONED).long()) % SELF_CONDITIONED == 0
    return chosen


def diffusion(answer: Answer, t: Tensor) -> Tensor:
    """(B,) nats: ½ γ' e^{-γ} ‖E(x) - x̂‖², what the bound integrates over t."""
    error = (answer.clean - answer.guess).square().sum((1, 2))
    return 0.5 * (GAMMA[1] - GAMMA[0]) * (-gamma(t)).exp() * error


def reconstruction(answer: Answer, x0: Tensor) -> Tensor:
    """(B,) nats: -log p(x | z_0)."""
    return -answer.log_law.gather(-1, x0[..., None]).sum((1, 2))


def prior(clean: Tensor) -> Tensor:
    """(B,) nats: KL(N(α_1 E(x), σ_1²) ‖ N(0, 1))."""
    variance = 1 / (1 + math.exp(-GAMMA[1]))
    return 0.5 * (variance - 1 - math.log(variance) + (1 - variance) * clean.square()).sum((1, 2))


def normal(shape: tuple[int, ...], generator: Generator | None, device: torch.device) -> Tensor:
    """Standard normals, float64."""
    drawn: Tensor = torch.special.ndtri(uniform(shape, generator, device).clamp_min(2.0**-54))
    return drawn
