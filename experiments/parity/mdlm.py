"""MDLM against kuleshov-group/mdlm: its noise, loss and both steps."""

from pathlib import Path
from types import SimpleNamespace

import torch
from common import (
    CONTINUOUS,
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
    rows_and_times,
)

from glauber.method.mdlm import MDLM, carried_over, masked

STUBS = (
    "hydra",
    "hydra.utils",
    "lightning",
    "torchmetrics",
    "torchmetrics.aggregation",
    "transformers",
    "dataloader",
    "models",
)


def compare(path: Path) -> Findings:
    """As its configuration has it: parameterization subs, noise loglinear, T=0, not conditioned on the time."""
    found, network, ours = Findings("MDLM", 1e-12), Network(), MDLM()
    x0, t = rows_and_times()
    with checkout(path, *STUBS, "utils"):
        import diffusion
        import noise_schedule

        theirs = bare(
            diffusion.Diffusion,
            config=SimpleNamespace(noise=SimpleNamespace(type="loglinear")),
            noise=noise_schedule.LogLinearNoise(),
            backbone=network.wide,
            mask_index=VOCAB,
            vocab_size=VOCAB + 1,
            parameterization="subs",
            time_conditioning=False,
            neg_infinity=-1e6,
            **CONTINUOUS,
        )
        clock = (1 - EPS) * t
        chance = 1 - (-theirs.noise(t)[0]).exp()
        found.compare("chance of a mask", chance, clock)
        torch.manual_seed(2)
        z = theirs.q_xt(x0, chance[:, None])
        found.compare("noised tokens of one seed", z, masked(PROCESS, x0, clock, torch.Generator().manual_seed(2)))

        theirs._sample_t, theirs.q_xt = lambda *_: t, lambda *_: z
        loss = theirs._forward_pass_diffusion(x0).sum(1)
        found.compare("loss", loss, (1 - EPS) * ours.term(network, PROCESS, x0, z, clock))  # dt = (1 - EPS) dt of ours
        for t_, s in STEPS:
            now, step = torch.full((ROWS, 1), t_), t_ - s
            for update, end in ((theirs._ddpm_update, 1 - EPS), (theirs._ddpm_caching_update, 1.0)):
                law = drawn_from(diffusion, "_sample_categorical", lambda: update(z, now, step))  # noqa: B023
                assert law.shape == (ROWS, LENGTH, VOCAB + 1)
                mine = ours.law(network, PROCESS, z, end * t_, end * s, "ancestral")
                found.compare(f"{update.__name__} from {t_} to {s}", carried_over(PROCESS, z, law), mine)
    return found
