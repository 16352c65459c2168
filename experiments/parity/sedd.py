"""SEDD against louaaron/Score-Entropy-Discrete-Diffusion, masks and uniform: noise, parameterisation, loss and steps."""

import sys
from pathlib import Path
from typing import Any

import torch
from common import (
    EPS,
    LENGTH,
    PROCESS,
    ROWS,
    STEPS,
    VOCAB,
    Findings,
    Network,
    bare,
    checkout,
    drawn_from,
    noised,
    rows_and_times,
)
from torch import Tensor, nn

from glauber.method import sedd
from glauber.method.mdlm import masked

STUBS = ("flash_attn", "flash_attn.flash_attn_interface", "einops", "omegaconf")


def compare(path: Path) -> Findings:
    """As its configuration has it: graph absorb with loglinear noise; its uniform graph with geometric noise."""
    found = Findings("SEDD", 1e-12)
    with checkout(path, *STUBS):
        import graph_lib
        import losses
        import model
        import noise_lib
        import sampling

        absorbing(found, graph_lib.Absorbing(VOCAB), noise_lib.LogLinearNoise(), model.SEDD, losses, sampling)
        uniform(found, graph_lib.Uniform(VOCAB), noise_lib.GeometricNoise(*sedd.SIGMA), model.SEDD, losses, sampling)
    return found


def official(kind: type, network: Any, scaled: bool) -> Any:
    """The official network around our logits: its own last lines make the score of them."""
    return bare(
        kind,
        vocab_embed=lambda z: z.double(),
        sigma_map=lambda sigma: sigma,
        rotary_emb=lambda x: None,
        blocks=nn.ModuleList(),
        output_layer=lambda x, c: network(x.long()),
        scale_by_sigma=scaled,
        absorb=scaled,
    )


def absorbing(found: Findings, graph: Any, noise: Any, kind: type, losses: Any, sampling: Any) -> None:
    """Its clock stops at 1 - EPS of ours."""
    network, ours, (x0, t) = Network(0.2), sedd.Absorbing(), rows_and_times()
    theirs, clock = official(kind, network.wide, scaled=True), (1 - EPS) * t
    torch.manual_seed(2)
    z = graph.sample_transition(x0, noise(t)[0][:, None])
    found.compare("masks: noised tokens of one seed", z, masked(PROCESS, x0, clock, torch.Generator().manual_seed(2)))
    loss = losses.get_loss_fn(noise, graph, train=False)(theirs, x0, t=t, perturbed_batch=z)
    found.compare("masks: loss", loss, (1 - EPS) * ours.term(network, PROCESS, x0, z, clock))

    def law(t: float, s: float, sampler: str) -> Tensor:
        return ours.law(network, PROCESS, z, (1 - EPS) * t, (1 - EPS) * s, sampler)

    for name, sampler in (("analytic", "tweedie"), ("euler", "euler")):
        for t_, s in STEPS:
            drawn = step(sampling, graph, noise, name, theirs, z, t_, s)
            found.compare(f"masks: {name} from {t_} to {s}", drawn, law(t_, s, sampler))
    last = last_step(sampling, graph, noise, theirs, z, 0.2)
    where = z == PROCESS.noise.mask
    found.compare("masks: the last step, at masks", last[where], law(0.2, 0.0, "tweedie")[where][:, :-1])


def uniform(found: Findings, graph: Any, noise: Any, kind: type, losses: Any, sampling: Any) -> None:
    """Its clock begins at σ_min, ours at 0: the same σ is compared, and the loss for each unit of σ. Not where σ is so small
    that their 1 - V/(e^σ - 1 + V) has lost its digits."""
    network, ours, (x0, t) = Network(0.2), sedd.Uniform(), rows_and_times()
    t = 0.35 + 0.6 * t
    theirs = official(kind, network, scaled=False)
    z = noised(x0)

    def clock(t: Any) -> Any:
        """Our time at which σ is what it is at t for them."""
        high = torch.as_tensor(sedd.SIGMA[1] / sedd.SIGMA[0], dtype=torch.float64).log()
        return torch.log1p((torch.as_tensor(t, dtype=torch.float64) * high).exp()) / high

    found.compare("uniform: σ", noise(t)[0], sedd.sigma(clock(t)))
    loss = losses.get_loss_fn(noise, graph, train=False)(theirs, x0, t=t, perturbed_batch=z) / noise(t)[1]
    mine = ours.term(network, PROCESS, x0, z, clock(t)) / sedd.sigma_rate(clock(t))
    found.compare("uniform: loss for each unit of σ", loss, mine)
    for t_, s in ((0.9, 0.85), (0.6, 0.5), (0.3, 0.05)):
        drawn = step(sampling, graph, noise, "analytic", theirs, z, t_, s)
        mine = ours.law(network, PROCESS, z, clock(t_).item(), clock(s).item(), "tweedie")
        found.compare(f"uniform: analytic from {t_} to {s}", drawn, mine)
    last = last_step(sampling, graph, noise, theirs, z, 0.4)
    found.compare("uniform: the last step", last, ours.law(network, PROCESS, z, clock(0.4).item(), 0.0, "tweedie"))
    # Euler goes by σ' (t - s), so our step is as long as makes that the same.
    t_, s = 0.6, 0.599
    now = clock(t_)
    length = (t_ - s) * noise(torch.tensor(t_))[1] / sedd.sigma_rate(now)
    drawn = step(sampling, graph, noise, "euler", theirs, z, t_, s)
    found.compare("uniform: euler", drawn, ours.law(network, PROCESS, z, now.item(), (now - length).item(), "euler"))


def step(sampling: Any, graph: Any, noise: Any, name: str, theirs: Any, z: Tensor, t: float, s: float) -> Tensor:
    """What a predictor draws from."""
    predictor, score = sampling.get_predictor(name)(graph, noise), score_of(theirs)
    module = sampling if name == "analytic" else module_of(graph)
    law = drawn_from(module, "sample_categorical", lambda: predictor.update_fn(score, z, torch.full((ROWS, 1), t), t - s))
    assert law.shape[:2] == (ROWS, LENGTH)
    return law


def last_step(sampling: Any, graph: Any, noise: Any, theirs: Any, z: Tensor, t: float) -> Tensor:
    """What the denoiser draws from."""
    denoiser, now = sampling.Denoiser(graph, noise), torch.full((ROWS, 1), t)
    return drawn_from(sampling, "sample_categorical", lambda: denoiser.update_fn(score_of(theirs), z, now))


def score_of(theirs: Any) -> Any:
    """What its samplers call."""
    from model import utils

    return utils.get_score_fn(theirs, train=False, sampling=True)


def module_of(thing: Any) -> Any:
    """In which its class is."""
    return sys.modules[type(thing).__module__]
