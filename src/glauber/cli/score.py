"""The command `score`."""

import json
import math
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.app import app, command, sampling, what
from glauber.cli.load import open_model
from glauber.cli.options import Codec, Json, ModelName, ScheduleOptions, check_seed

KERNELS = ("reversal", "heat-bath")


@command(app)
def score(
    model: ModelName,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A folder that `glauber prepare` made, or tokens as .npy.")
    ] = None,
    *,
    text: Annotated[Path | None, what(help="A text file (.txt or .jsonl, also .gz, .xz) instead.")] = None,
    split: Annotated[str, what(help="Of DATA: valid or train.")] = "valid",
    rows: Annotated[int | None, what(help="Score this many windows, from the start; all if not given.")] = None,
    codec: Codec = None,
    options: ScheduleOptions,
    draws: Annotated[int, sampling(min=1, help="Network calls (NFE) per window; more of them lower the standard error.")] = 8,
    seed: Annotated[int, sampling(callback=check_seed, help="Of the steps and the noise that are drawn.")] = 0,
    as_json: Json = False,
) -> None:
    """Score how likely a text is.

    Upper bounds on its negative log-likelihood in bits, for both kernels' chains, over windows that do not overlap. Exact
    where the model is autoregressive.
    """
    if (data is None) == (text is None):
        raise ValueError("say what to score: a folder of prepared data, an .npy of tokens, or --text FILE")
    if rows is not None and rows < 1:
        raise ValueError(f"score at least one window, not {rows}")
    from glauber.cli.score_windows import windows_of_data, windows_of_file
    from glauber.tasks.score import score_windows

    loaded = open_model(model)
    windows = windows_of_file(loaded, text, rows) if text is not None else windows_of_data(loaded, data or Path(), split, rows)
    began = time.perf_counter()
    sampler = loaded.sampler(**options.chosen())
    found = score_windows(sampler, windows, KERNELS, draws, seed, progress=not as_json)
    used = sampler.schedule
    first = next(iter(found.values()))
    result: dict[str, Any] = {
        **{name: first[name] for name in ("rows", "tokens", "characters", "calls") if name in first},
        "length": used.length,
        "steps": used.steps,
        "block": used.block,
        "seconds": time.perf_counter() - began,
        "bounds": {name: _bounds(figures) for name, figures in found.items()},
    }
    if as_json:
        print(json.dumps(result))
    else:
        _print_score(result)


def _bounds(figures: dict[str, Any]) -> dict[str, float | None]:
    """The bounds and their standard errors; None for the error of a single window."""
    wanted = [name for name in figures if name.startswith(("bits", "standard", "exact"))]
    return {name: None if math.isnan(figures[name]) else figures[name] for name in wanted}


def _print_score(result: dict[str, Any]) -> None:
    """A small table."""

    def figure(bound: dict[str, Any], key: str, error: str) -> str:
        if key not in bound:
            return ""
        return f"{bound[key]:.3f}" + ("" if bound[error] is None else f" ± {bound[error]:.3f}")

    counted = f", {result['characters']:,} characters" if "characters" in result else ""
    print(f"{result['rows']:,} windows of {result['length']} tokens: {result['tokens']:,} tokens{counted}")
    exact = all(bound["exact"] for bound in result["bounds"].values())  # by either kernel, then
    print(f"{'in bits' if exact else 'at most, in bits':<18}{'per token':<18}{'per character' if counted else ''}".rstrip())
    for name, bound in [("exactly", *list(result["bounds"].values())[:1])] if exact else result["bounds"].items():
        per_token = figure(bound, "bits_per_token", "standard_error")
        per_character = figure(bound, "bits_per_character", "standard_error_per_character")
        print(f"{name:<18}{per_token:<18}{per_character}".rstrip())
    each = result["calls"] // result["rows"]
    print(f"{result['calls']:,} network calls, {each} per window, out of a chain's {result['steps'] // result['block']:,}")
