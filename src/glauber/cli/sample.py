"""The command `sample`."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from glauber.cli.app import app, command, output, sampling, what
from glauber.cli.files import require_free, require_names, save_images
from glauber.cli.load import open_model
from glauber.cli.options import ClassOptions, Codec, Force, Html, Json, ModelName, Seed, Watched
from glauber.cli.result import print_result

if TYPE_CHECKING:
    from torch import Tensor

    from glauber.chain.driver import OnStep
    from glauber.model import Model
    from glauber.sampler import Sampler
    from glauber.tasks.windows import Watch


@dataclass(frozen=True)
class SampleOptions(ClassOptions):
    """A chain, a chain within a budget of network calls, or the sampler of a method that is no chain."""

    calls: Annotated[int | None, sampling(help="Network calls (NFE) a sample, at most; sets sweeps, block and order.")] = None
    sampler: Annotated[
        str | None, sampling(help="For a model of a method that is no chain, such as mdlm; e.g. ancestral or euler.")
    ] = None


@command(app)
def sample(
    model: ModelName,
    *,
    num: Annotated[int, what("-n", "--num", help="How many samples.")] = 4,
    prompt: Annotated[str | None, what(help="How the texts begin; the model writes the rest of the row.")] = None,
    codec: Codec = None,
    options: SampleOptions,
    seed: Seed = None,
    out: Annotated[
        Path | None, output(help="A folder for images, for the files of a codec, or for samples.json with texts and tokens.")
    ] = None,
    strip: Annotated[Path | None, output(help="A .png: noise falls on the first image, and the chain brings it back.")] = None,
    gif: Annotated[Path | None, output(help="A .gif: the images come out of the noise.")] = None,
    html: Html = None,
    watch: Watched = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw samples.

    Images go into a folder, texts and tokens onto the screen. What is not set is the model's own.

    The models in the box are autoregressive by default: each token is drawn once, from left to right. --sweeps 4 runs the chain
    that visits every site four times.
    """
    if num < 1:
        raise ValueError(f"ask for at least one sample, not {num}")
    if out is not None:
        require_free(out, force)
    require_names({"--strip": strip, "--gif": gif, "--html": html}, force)
    from glauber.cli.replay import Replay, all_steps, all_watches
    from glauber.cli.view import camera_of, view_of
    from glauber.codec import NamedCodec, is_image_codec

    loaded = open_model(model)
    images = is_image_codec(loaded.codec)
    if images and out is strip is gif is html is None:
        raise ValueError("this model makes images; say where to put them, e.g. --out samples")
    began = time.perf_counter()
    sampler = loaded.sampler(**options.chosen(), gaps=prompt is not None)
    _report_unused(options.calls, sampler)
    view = view_of(loaded.text_codec, sampler.schedule) if watch else None
    camera = camera_of(loaded, sampler.schedule, strip, gif) if strip or gif else None
    replay = None if html is None else Replay(loaded, sampler, html, model, seed)
    watches = all_watches([view, None if replay is None else replay.watch])
    films = [each.film for each in (camera, replay) if each is not None and each.film is not None]
    film, bar = all_steps(films) if films else None, view is None and not as_json
    texts, tokens = draw(loaded, sampler, num, seed, prompt, watches, film, bar)
    if view is not None:
        view.clear()
    result: dict[str, Any] = {"tokens": tokens.tolist(), "seconds": time.perf_counter() - began}
    if images:
        result |= {} if out is None else {"files": save_images(loaded.decode(tokens), out)}
        result |= {} if camera is None else {"pictures": camera.save(seed)}
    elif out is not None and isinstance(loaded.codec, NamedCodec) and loaded.codec.saves:
        result |= {"files": [str(file) for file in loaded.codec.save(tokens, out)]}
    else:
        result |= {"texts": texts} if texts else {}
        result |= {} if out is None else _write(result, out)
    if replay is not None:
        result["replay"] = replay.save({"texts": texts})
    print_result(result, as_json)


def _report_unused(calls: int | None, sampler: "Sampler") -> None:
    """Of a budget of network calls that is not all used."""
    schedule = sampler.schedule
    if calls is not None and sampler.calls < calls:
        why = "more do not help" if schedule.block == 1 else f"blocks must divide the {schedule.length} sites"
        print(f"glauber: {sampler.calls} of the {calls} calls are used; {why}", file=sys.stderr)


def draw(
    loaded: "Model",
    sampler: "Sampler",
    num: int,
    seed: int | None,
    prompt: str | None = None,
    watch: "Watch | None" = None,
    on_step: "OnStep | None" = None,
    progress: bool = False,
) -> "tuple[list[str], Tensor]":
    """The texts, if the model is one of text, and the tokens (num, L); a watch or `on_step` sees each state of the chain."""
    import torch

    from glauber.process.draws import new_generator
    from glauber.tasks.infill import continuing
    from glauber.tasks.steps import run_alone

    generator = new_generator(seed)
    if prompt is not None:
        return run_alone(continuing(sampler, loaded.require_text_codec(), prompt, num, generator, watch, progress))
    if watch is not None:
        on_step = watch(torch.zeros(sampler.length, dtype=torch.bool), sampler.length, 0)
    tokens = sampler.run(num, generator=generator, on_step=on_step, progress=progress)
    return words_of(loaded, tokens), tokens


def words_of(loaded: "Model", tokens: "Tensor") -> list[str]:
    """What tokens (num, L) say, by a codec of text or by a user's own that writes no files; nothing for any other."""
    from glauber.codec import NamedCodec

    named = isinstance(loaded.codec, NamedCodec) and not loaded.codec.saves
    return list(map(str, loaded.decode(tokens))) if named or loaded.text_codec is not None else []


def _write(result: dict[str, Any], out: Path) -> dict[str, Any]:
    """samples.json, in a folder of its own; its name."""
    from glauber.runtime.files import write

    out.mkdir(parents=True, exist_ok=True)
    write(out / "samples.json", json.dumps(result).encode() + b"\n")
    return {"files": [str(out / "samples.json")]}
