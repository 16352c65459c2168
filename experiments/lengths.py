"""How far the law of a fill of unknown length is from the exact one, by the number of draws that it is chosen among.

    python experiments/lengths.py --out lengths.json

The space is small: two letters, gaps of 1 to 3 tokens, all 14 fills enumerated. The network has random weights, large ones, so
that what it says from both sides and from the left have little to do with each other: a hard case. The distance is that of
total variation, between the exact law and the mean over many fills of the weights that they are drawn by.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import torch

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import CharCodec
from glauber.process.draws import new_generator
from glauber.provenance import write_figures
from glauber.tasks.constraints import Constraints, Filling
from glauber.tasks.lengths import effective_size, proposing
from glauber.tasks.steps import run_alone
from glauber.tasks.template import read_pattern

BEFORE, AFTER, MOST, L = "a", "ba", 3, 6
DRAWS = (1, 4, 16, 64)


def random_model(spread: float) -> Model:
    """A causal network in float64 with weights of this standard deviation."""
    torch.manual_seed(0)
    codec = CharCodec("ab")
    network = Transformer(TransformerConfig(codec.vocab, L, width=16, layers=2, heads=2, causal=True)).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=spread)
    return Model(network, Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), NoiseLaw.uniform(codec.vocab)), codec)


def posterior(model: Model) -> dict[str, float]:
    """P(length, fill | given), all fills enumerated."""
    codec = model.require_text_codec()
    fills = ["".join(fill) for size in range(1, MOST + 1) for fill in itertools.product("ab", repeat=size)]
    texts = [codec.encode(BEFORE + fill + AFTER) for fill in fills]
    x = torch.tensor([tokens + [0] * (L - len(tokens)) for tokens in texts])
    known = torch.arange(L) < torch.tensor([len(tokens) for tokens in texts])[:, None]
    law = torch.where(known, model.sampler(gaps=True).log_likelihoods(x), 0.0).sum(1).softmax(0)
    return dict(zip(fills, law.tolist(), strict=True))


def distances(model: Model, fills: int = 96) -> dict[int, dict[str, float]]:
    """For each number of draws the distance, and the mean effective sample size. The same draws are grouped again and again."""
    codec, sampler = model.require_text_codec(), model.sampler(gaps=True)
    pattern = read_pattern(f"{BEFORE}[[1-{MOST}]]{AFTER}", codec, L)
    job = Filling(sampler, codec, Constraints(seams="raw"), new_generator(0))
    found = run_alone(proposing(job, pattern, fills, max(DRAWS)))
    gaps = found.rows.text & ~found.rows.given
    exact = posterior(model)
    which = torch.tensor([list(exact).index(codec.decode(row[gap])) for row, gap in zip(found.x, gaps, strict=True)])
    order = torch.randperm(len(which), generator=new_generator(0))
    report: dict[int, dict[str, float]] = {}
    for draws in DRAWS:
        weights = found.log_weights[order].view(-1, draws).softmax(-1)
        law = torch.zeros(len(exact), dtype=torch.float64).index_add_(0, which[order], weights.flatten() / len(weights))
        distance = (law - torch.tensor(list(exact.values()))).abs().sum().item() / 2
        report[draws] = {"distance": distance, "effective": effective_size(weights).mean().item()}
    return report


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spread", type=float, default=0.35, help="of the network's random weights")
    parser.add_argument("--fills", type=int, default=960)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"spread": arguments.spread, "fills": arguments.fills}
    figures["draws"] = distances(random_model(arguments.spread), arguments.fills)
    write_figures(arguments.out, figures)
    print(figures)


if __name__ == "__main__":
    main()
