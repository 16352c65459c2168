"""Whether a training step that is replayed as a CUDA graph gives the figures of an eager step, to the bit.

    python experiments/replayed.py [--out FILE.json]

Trains a small network for 40 eager steps, and again by a CUDA graph, and compares losses and averaged weights.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from glauber.conditional import Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule
from glauber.provenance import write_figures
from glauber.runtime import cuda_graph
from glauber.train import Trainer, TrainSpec
from glauber.train.in_memory import InMemory

STEPS = 40


def trained(eager: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses (STEPS,) and all averaged weights, when the first `eager` steps are eager."""
    cuda_graph.EAGER = eager
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab=97, length=64, width=64, layers=2, heads=2, causal=True)).cuda()
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.integers(3, size=(512, 64)).cumsum(1) % 97)
    process = Process(Schedule.round_robin(64, 256, "linear"), NoiseLaw.uniform(97))
    spec = TrainSpec(1000, 32, causal_every=2, marked_fraction=0.3, warmup=10, grad_clip=1.0, precision="bf16", grad_accum=2)
    trainer = Trainer(network, process, InMemory(rows), spec, compiled=True)
    losses = torch.stack([trainer.advance() for _ in range(STEPS)])
    return losses.cpu(), torch.cat([p.flatten() for p in trainer.average.network.parameters()]).cpu()


def main() -> None:
    """Compare, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    (losses, weights), (again, same) = trained(STEPS), trained(STEPS)
    replayed, moved = trained(3)
    figures = {
        "losses": losses.tolist(),
        "twice_without_recording": {"loss": (losses - again).abs().max().item(), "weight": (weights - same).abs().max().item()},
        "recorded": {"loss": (losses - replayed).abs().max().item(), "weight": (weights - moved).abs().max().item()},
    }
    print({name: value for name, value in figures.items() if name != "losses"})
    if out is not None:
        write_figures(out, figures)


if __name__ == "__main__":
    main()
