"""DUO against s-sahoo/duo. Its base is UDLM: noise, loss and step are compared. Its operator from Gaussian to uniform noise has
no counterpart here; compared are the law of tokens that it stands for, and the loss at the times that it gives."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from common import EPS, PROCESS, ROWS, STEPS, VOCAB, Findings, Network, bare, checkout, drawn_from, noised, rows_and_times
from scipy.integrate import quad

from glauber.method.udlm import UDLM

STUBS = ("hydra", "hydra.utils", "lightning", "transformers", "timm", "timm.scheduler", "dataloader", "metrics", "models")
TERMS = 150
"""Of the series for its operator, its configuration's n_series_terms."""
GAMMA = (-3.5, -1.75)
"""Between which its curriculum goes."""


def compare(path: Path) -> Findings:
    """As its configuration has it: algo duo_base and duo (curriculum mode series), noise log-linear, sampler ancestral."""
    found, network, ours = Findings("DUO", 1e-12), Network(), UDLM()
    x0, t = rows_and_times()
    z = noised(x0)
    with checkout(path, *STUBS):
        import algo
        import trainer_base
        import utils

        theirs = bare(
            algo.DUO_BASE,
            config=SimpleNamespace(sampling=SimpleNamespace(use_float64=True, guid_weight=None)),
            noise=trainer_base.LogLinear(EPS),
            backbone=lambda x, **_: network(x),
            vocab_size=VOCAB,
            class_conditional=False,
            time_conditioning=True,
            p_nucleus=1.0,
            device=torch.device("cpu"),
            dtype=torch.float64,
        )
        rate, alpha = theirs.noise(t)
        found.compare("chance of a token to stay", alpha, 1 - (1 - EPS) * t)
        log_law = theirs.forward(z, theirs._sigma_from_alphat(alpha[:, None]))
        loss = theirs.nll_per_token(log_law, z, x0, alpha[:, None], rate[:, None]).sum(1)
        found.compare("loss", loss, (1 - EPS) * ours.term(network, PROCESS, x0, z, 1 - alpha))

        clean = F.one_hot(x0, VOCAB).double()
        for t_, s in STEPS:
            now = torch.full((ROWS, 1), t_)
            law = drawn_from(trainer_base, "sample_categorical", lambda: theirs._ancestral_update(z, now, None, t_ - s))  # noqa: B023
            found.compare(f"step from {t_} to {s}", law, ours.law(network, PROCESS, z, clock(t_), clock(s), "ancestral"))
            theirs_noised = theirs._forward_process(clean, torch.full((ROWS, 1), 1 - clock(s)))
            sure = ours.law(lambda *_: clean.log(), PROCESS, z, 1.0, clock(s), "ancestral")
            found.compare(f"q(z_s | x_0) at {s}", theirs_noised, sure)
        now = torch.full((ROWS, 1), 0.1)
        last = drawn_from(
            trainer_base, "sample_categorical", lambda: theirs._ancestral_update(z, now, None, None, noise_removal_step=True)
        )
        found.compare("the last step", last, ours.law(network, PROCESS, z, clock(0.1), 0.0, "ancestral"))

        # Bounds may no longer be arrays; and to the last digit, since by default the integrals are good to 1e-8.
        utils.quad = lambda f, low, high: quad(f, low.item(), high.item(), epsabs=0, epsrel=1e-13, limit=500)
        gamma = GAMMA[0] + (GAMMA[1] - GAMMA[0]) * t
        series = utils.compute_duo_series_coefficients(TERMS, VOCAB)
        alpha, rate = utils.compute_duo_gamma_to_alpha_dalpha_series(
            gamma, *series, torch.arange(TERMS, dtype=torch.float64)[None], VOCAB, *GAMMA
        )
        loss = theirs.nll_per_token(log_law, z, x0, alpha[:, None], rate[:, None]).sum(1)
        found.compare("loss of the curriculum", loss, -rate * ours.term(network, PROCESS, x0, z, 1 - alpha))
    mine = torch.tensor([stays(level) for level in gamma.tolist()], dtype=torch.float64)
    found.compare("chance that the largest number stays, by quadrature", alpha, mine)
    return found


def clock(time: float) -> float:
    """Ours at a time of theirs."""
    return (1 - EPS) * time


def stays(gamma: float) -> float:
    """α for which the place of the largest of α̃ x + σ̃ ε, one-hot x, α̃² = sigmoid(-γ), has the law α x + (1 - α)/V."""
    node, weight = np.polynomial.hermite_e.hermegauss(100)
    below = torch.special.ndtr(torch.from_numpy(node) + np.exp(-gamma / 2)) ** (VOCAB - 1)
    first = float((below.numpy() * weight).sum() / weight.sum())
    return (VOCAB * first - 1) / (VOCAB - 1)
