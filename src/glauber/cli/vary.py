"""The command `vary`."""

import time
from typing import Annotated

from glauber.cli.app import app, command, sampling, what
from glauber.cli.load import open_model
from glauber.cli.options import ChainOptions, Json, ModelName, Seed
from glauber.cli.result import print_result


@command(app)
def vary(
    model: ModelName,
    *,
    text: Annotated[str, what(help="The text to vary, at most as long as the model's rows.")],
    num: Annotated[int, what("-n", "--num", help="How many variations.")] = 1,
    strength: Annotated[
        float,
        sampling(help="How far to noise it, as a share of the chain's steps: 0 leaves it as it is, 1 forgets it."),
    ] = 0.5,
    options: ChainOptions,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Write variations of a text.

    It is noised for a part of the chain's steps; the chain then runs back from there.
    """
    if num < 1:
        raise ValueError(f"ask for at least one variation, not {num}")
    if not 0 <= strength <= 1:
        raise ValueError(f"strength is a share of the chain's steps, from 0 to 1, not {strength}")
    from glauber.process.draws import new_generator
    from glauber.tasks.steps import run_alone
    from glauber.tasks.vary import varying

    loaded = open_model(model)
    codec, sampler = loaded.require_text_codec(), loaded.varying(**options.chosen())
    schedule = sampler.schedule
    t = round(strength * len(schedule.times)) * schedule.block
    began = time.perf_counter()
    texts = run_alone(varying(sampler, codec, text, t, num, new_generator(seed), progress=not as_json))
    print_result({"seconds": time.perf_counter() - began, "step": t, "steps": schedule.steps, "texts": texts}, as_json)
