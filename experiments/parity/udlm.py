"""UDLM against kuleshov-group/discrete-diffusion-guidance: loss and step."""

from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from common import CONTINUOUS, EPS, PROCESS, ROWS, STEPS, VOCAB, Findings, Network, bare, checkout, noised, rows_and_times

from glauber.method.udlm import UDLM

STUBS = (
    *("hydra", "hydra.utils", "lightning", "omegaconf", "torchmetrics", "torchmetrics.aggregation", "transformers"),
    *("mamba_ssm", "mamba_ssm.utils", "mamba_ssm.utils.generation", "classifier", "dataloader", "models"),
)


def compare(path: Path) -> Findings:
    """As its README trains UDLM: diffusion uniform, parameterization d3pm, T=0, zero_recon_loss; noise loglinear."""
    found, network, ours = Findings("UDLM", 1e-12), Network(), UDLM()
    x0, t = rows_and_times()
    z = noised(x0)
    with checkout(path, *STUBS):
        import diffusion
        import noise_schedule

        theirs = bare(
            diffusion.Diffusion,
            config=SimpleNamespace(
                noise=SimpleNamespace(type="loglinear"),
                sampling=SimpleNamespace(use_float64=True),
                training=SimpleNamespace(use_simple_ce_loss=False),
                zero_recon_loss=True,
            ),
            noise=noise_schedule.LogLinearNoise(),
            backbone=lambda z, *_, **__: network(z),
            limiting_distribution=torch.full((1, 1, VOCAB), 1 / VOCAB),
            vocab_size=VOCAB,
            diffusion="uniform",
            parameterization="d3pm",
            time_conditioning=True,
            **CONTINUOUS,
            device=torch.device("cpu"),
            dtype=torch.float64,
        )
        theirs._sample_t, theirs._q_xt = lambda *_: t, lambda *_: z
        loss = theirs._forward_pass_diffusion(x0)["loss"].sum(1)
        found.compare("loss", loss, ours.term(network, PROCESS, x0, z, t))  # which their noise's EPS does not enter
        for t_, s in STEPS:
            sigma = [theirs.noise(torch.full((ROWS,), time))[0] for time in (t_, s)]
            now, then = (1 - (-level)[:, None, None].exp() for level in sigma)
            _, law, _ = theirs._ddpm_denoise(z, sigma[0], now, then)
            mine = ours.law(network, PROCESS, z, (1 - EPS) * t_, (1 - EPS) * s, "ancestral")
            found.compare(f"step from {t_} to {s}", law, mine)
            clean = theirs._compute_posterior(F.one_hot(x0, VOCAB).double(), z, 1 - then, 1 - now)
            sure = ours.law(lambda *_: F.one_hot(x0, VOCAB).double().log(), PROCESS, z, (1 - EPS) * t_, (1 - EPS) * s, "")
            found.compare(f"q(z_s | z_t, x_0) from {t_} to {s}", clean, sure)
    return found
