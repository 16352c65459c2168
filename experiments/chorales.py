"""Chorales by every method and chain: framewise likelihood, and what can be counted in the samples.

    glauber prepare Jsb16thSeparated.json --codec music --out data
    python experiments/chorales.py train data runs [--seconds 600] [--set train.batch=8]
    python experiments/chorales.py evaluate Jsb16thSeparated.json runs --out chorales.json [--number 200] [--calls 64,256]
    python experiments/chorales.py harmonise Jsb16thSeparated.json runs --out harmonies

The likelihood is measured frame by frame: the frames of a row in random order, the voices of a frame in random order, each note
given all before it and masks elsewhere. The nats of a frame are those of its four notes. `ensemble` averages the probability of
each frame over the orders before its logarithm is taken, `plain` averages the logarithms.

Named before any run. A chain of several sweeps is better than one sweep if, with at most as many calls, its samples are more
likely to the same network, have fewer parallel fifths and octaves, and lie nearer to real chorales in note lengths and in
intervals: at least four of these five FIGURES. Rows with marked noise, and both kernels, are counted on their own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from counterpoint import statistics
from shared import PATH, TRAINED, device, low_precision, run_command, trained
from torch import Tensor

from glauber.codec import NamedCodec, use_codec
from glauber.codec.music import FRAMES, as_tokens
from glauber.model import Model, load
from glauber.process.draws import new_generator
from glauber.provenance import write_figures
from glauber.runtime.files import parse_json
from glauber.runtime.progress import watched
from glauber.sampler import Sampler, evaluating

METHODS = ("ggm", "mdlm", "ar")
SWEEPS = (1, 2, 4, 8, 16)
FIGURES = ("nats", "parallel_fifths", "parallel_octaves", "lengths_distance", "intervals_distance")
HARMONIES = 8
ROWS = 256
"""Rows that go through the network at once."""


def train(data: Path, out: Path, seconds: float, settings: list[str]) -> None:
    """A model of each method, on the same network and time."""
    use_codec("music")
    for method in METHODS:
        trained("chorales", method, data, out / method, seconds, settings)


def models(runs: Path) -> dict[str, Model]:
    """Those that are trained."""
    use_codec("music")
    return {method: load(runs / method, device()) for method in METHODS}


@torch.no_grad()
def framewise(model: Model, rows: Tensor, orders: int, seed: int = 0) -> dict[str, float]:
    """Nats of a frame of rows (N, L), the mean over frames and rows, with the standard error over rows."""
    frames, voices = _shape(model)
    found = torch.zeros(orders, len(rows), frames, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    with evaluating(model.network), low_precision(model):
        for order in range(orders):
            for start in range(0, len(rows), ROWS):
                part = rows[start : start + ROWS]
                sites = frame_orders(len(part), frames, voices, generator)
                found[order, start : start + ROWS] = _nats(model, part, sites)
    plain = found.mean((0, 2))
    ensemble = -((-found).logsumexp(0) - np.log(orders)).mean(1)
    error = ensemble.std().item() / len(rows) ** 0.5 if len(rows) > 1 else float("nan")
    return {"ensemble": ensemble.mean().item(), "plain": plain.mean().item(), "error": error, "orders": orders}


def frame_orders(rows: int, frames: int, voices: int, generator: torch.Generator) -> Tensor:
    """(rows, L) sites: the frames of each row in an order of its own, in each of them the voices in theirs."""
    frame = torch.rand(rows, frames, generator=generator).argsort(1)
    voice = torch.rand(rows, frames, voices, generator=generator).argsort(2)
    return (frame[..., None] * voices + voice).flatten(1)


def _nats(model: Model, rows: Tensor, sites: Tensor) -> Tensor:
    """(N, frames) of rows whose sites are shown in this order."""
    frames, voices = _shape(model)
    conditional: Any = model.method.conditional(model.network, model.process, both_ways=True)
    rows, sites = rows.to(model.device), sites.to(model.device)
    x = torch.full_like(rows, model.process.noise.mask)
    found = torch.zeros(len(rows), frames, dtype=torch.float64, device=rows.device)
    for k in range(rows.shape[1]):
        here = sites[:, k : k + 1]
        law = conditional(x, torch.zeros_like(x[:, 0]), (x != model.process.noise.mask).double(), here)
        law = model.process.noise.within(law, here)[:, 0]
        own = rows.gather(1, here)
        found.scatter_add_(1, here // voices, -law.gather(1, own))
        x = x.scatter(1, here, own)
    return found.cpu()


def _shape(model: Model) -> tuple[int, int]:
    codec = model.codec
    assert isinstance(codec, NamedCodec)
    return codec.shape[0], codec.shape[1]


def plans(model: Model, calls: int) -> Iterator[tuple[dict[str, Any], Sampler]]:
    """Every way of this model to spend at most so many calls a row; chains draw as many sites at once as that takes."""
    L = model.process.length
    if not model.method.can.any_schedule:
        if model.method.can.fewer_calls:
            yield {}, model.sampler(calls=calls)
        elif calls == L:
            yield {}, model.sampler()
        return
    for sweeps in SWEEPS:
        block = sweeps * L // calls
        if sweeps * L % calls or L % block:
            continue
        for kernel in ("heat-bath", "reversal"):
            for marked in (False, True):
                said: dict[str, Any] = {"sweeps": sweeps, "block": block, "kernel": kernel, "mark_noise": marked}
                yield said, model.sampler(order="random", **said)


def evaluate(json: Path, runs: Path, out: Path, number: int, calls: str, orders: int, rows: int | None) -> None:
    """Likelihood of the test split, and of every way of sampling what can be counted in its samples."""
    codec, known = use_codec("music"), models(runs)
    test, judge = codec.encode(json)["test"][:rows], known["ggm"]
    result: dict[str, Any] = {"rows": len(test), "number": number, "figures": FIGURES, "likelihood": {}, "samples": []}
    for method in ("ggm", "mdlm"):
        result["likelihood"][method] = framewise(known[method], test, orders)
    real = np.stack(codec.rows(test))
    result["real"] = {"nats": result["likelihood"]["ggm"]["ensemble"], **statistics(real, real)}
    asked = [(method, budget, *each) for method in METHODS for budget in _whole(calls) for each in plans(known[method], budget)]
    for method, budget, said, sampler in watched(iter(asked), True, len(asked), "evaluate", "row"):
        drawn = sampler.run(number, generator=new_generator(0)).cpu()
        nats = framewise(judge, drawn, orders)["ensemble"]
        row = {"method": method, "budget": budget, **said, "nats": nats, **statistics(np.stack(codec.rows(drawn)), real)}
        result["samples"].append(row)
        write_figures(out, result)
    result["better_than_one_sweep"] = [row for row in result["samples"] if beats(row, result["samples"])]
    write_figures(out, result)


def beats(row: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Whether a chain of several sweeps is better than one sweep with as many calls, of the same kernel and kind of noise."""
    same = ("method", "budget", "kernel", "mark_noise")
    once = [each for each in rows if each.get("sweeps") == 1 and all(each.get(name) == row.get(name) for name in same)]
    return row.get("sweeps", 1) > 1 and any(sum(row[name] < each[name] for name in FIGURES) >= 4 for each in once)


def harmonise(json: Path, runs: Path, out: Path) -> None:
    """The sopranos of the first rows of the first test chorales, with three voices of the model below each; none is picked."""
    codec, model = use_codec("music"), models(runs)["ggm"]
    rows = torch.stack([torch.from_numpy(piece.reshape(-1)) for piece in firsts(json)])
    free = torch.ones(codec.shape, dtype=torch.bool)
    free[:, 0] = False
    filled = model.infill_tokens(rows, free.flatten(), seed=0)
    for file in codec.save(filled, out):
        print(file)


def firsts(file: Path) -> list[np.ndarray]:
    """The first rows of the first HARMONIES test chorales."""
    pieces = parse_json(file.read_bytes())["test"][:HARMONIES]
    return [as_tokens(piece)[:FRAMES] for piece in pieces]


def _whole(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def main() -> None:
    """The command line."""
    whole: dict[str, Any] = {"type": int}
    run_command(
        __doc__,
        {
            train: TRAINED,
            evaluate: {
                "json": PATH,
                "runs": PATH,
                "--out": PATH | {"required": True},
                "--number": whole | {"default": 200},
                "--calls": {"default": "64,256"},
                "--orders": whole | {"default": 5},
                "--rows": whole,
            },
            harmonise: {"json": PATH, "runs": PATH, "--out": PATH | {"required": True}},
        },
    )


if __name__ == "__main__":
    main()
