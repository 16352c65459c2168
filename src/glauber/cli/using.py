"""Commands that use a model: sample, infill, vary, score."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glauber.cli.common import (
    Block,
    ClassName,
    Force,
    Guidance,
    Json,
    Kernel,
    ModelName,
    Order,
    Seed,
    Sweeps,
    Temperature,
    TopK,
    TopP,
    app,
    calm_threads,
    chain_options,
    check_seed,
    require_free,
    require_new,
    save_images,
)

if TYPE_CHECKING:
    from glauber.model import Model
    from glauber.sampler import Sampler

Watching = Annotated[bool, typer.Option("--watch", help="See the text settle, in a terminal.")]


@app.command()
def sample(
    model: ModelName,
    num: Annotated[int, typer.Option("-n", "--num", help="How many samples.")] = 4,
    seed: Seed = None,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    kernel: Kernel = None,
    top_p: TopP = None,
    top_k: TopK = None,
    temperature: Temperature = None,
    calls: Annotated[
        int | None,
        typer.Option(help="At most so many network calls (NFE) a sample; sweeps, block and order are then chosen for you."),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="For a model of a method that is no chain, such as mdlm; e.g. ancestral or euler.")
    ] = None,
    class_name: ClassName = None,
    guidance: Guidance = None,
    prompt: Annotated[str | None, typer.Option(help="How the texts begin; the model writes the rest of the row.")] = None,
    watch: Watching = False,
    strip: Annotated[
        Path | None, typer.Option(help="A .png: noise falls on the first image, and the chain brings it back.")
    ] = None,
    gif: Annotated[Path | None, typer.Option(help="A .gif: the images come out of the noise.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the images, or for samples.json with texts and tokens.")
    ] = None,
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
    _require_pictures(strip, gif, force)
    from glauber.cli.watching import camera_of, view
    from glauber.codec import is_image_codec
    from glauber.runtime.files import write
    from glauber.process.draws import new_generator
    from glauber.tasks.infill import continue_text

    calm_threads()
    loaded = _open(model)
    if is_image_codec(loaded.codec) and out is strip is gif is None:
        raise ValueError("this model makes images; say where to put them, e.g. --out samples")
    began = time.perf_counter()
    options = chain_options(kernel, top_p, top_k, temperature, class_name, guidance) | {"calls": calls, "sampler": sampler}
    bound = loaded.sampler(**options, sweeps=sweeps, block=block, order=order, gaps=prompt is not None)
    _tell_unused(calls, bound)
    seen = view(loaded.text_codec, bound.schedule) if watch else None
    camera = camera_of(loaded, bound.schedule, strip, gif) if strip or gif else None
    generator, progress = new_generator(seed), seen is None and not as_json
    if prompt is not None:
        texts, tokens = continue_text(bound, loaded.require_text_codec(), prompt, num, generator, seen, progress)
    else:
        on_step = camera.film if camera is not None else None if seen is None else seen()
        tokens = bound.run(num, generator=generator, on_step=on_step, progress=progress)
        texts = loaded.decode(tokens) if loaded.text_codec is not None else []
    if seen is not None:
        seen.clear()
    result: dict[str, Any] = {"tokens": tokens.tolist(), "seconds": time.perf_counter() - began}
    if is_image_codec(loaded.codec):
        result |= {} if out is None else {"files": save_images(loaded.decode(tokens), out)}
        result |= {} if camera is None else {"pictures": camera.save(seed)}
    else:
        result |= {"texts": texts} if texts else {}
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write(out / "samples.json", json.dumps(result).encode() + b"\n")
            result["files"] = [str(out / "samples.json")]
    _print_sample(result, as_json)


@app.command()
def infill(
    model: ModelName,
    text: Annotated[
        str | None, typer.Option(help="A text; [[12]] in it is a gap of 12 tokens. A plain [[ has a backslash before it.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="Many texts: a .jsonl file, each line with a field text.")] = None,
    image: Annotated[
        Path | None, typer.Option(help="An image of the model's size; with --mask, or smaller and with --outpaint.")
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="Tokens as .npy, one row or several; with --mask.")] = None,
    mask: Annotated[
        Path | None,
        typer.Option(
            help="What to fill in: white pixels of an image of any size, or true in a .npy, e.g. one of the tokens' shape."
        ),
    ] = None,
    mask_rule: Annotated[
        str | None,
        typer.Option(help="Which tokens white pixels free: cover, paper, or turns, the default for a VQ codec."),
    ] = None,
    outpaint: Annotated[
        str | None,
        typer.Option(
            help="Instead of --mask: go on around a smaller image; middle, or pixels from the left and the top: 8,16."
        ),
    ] = None,
    num: Annotated[int, typer.Option("-n", "--num", help="How many different fills.")] = 1,
    seed: Seed = None,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    kernel: Kernel = None,
    top_p: TopP = None,
    top_k: TopK = None,
    temperature: Temperature = None,
    class_name: ClassName = None,
    guidance: Guidance = None,
    watch: Watching = False,
    out: Annotated[
        Path | None,
        typer.Option(help="With --image a folder, filled if not given; with --texts a .jsonl; with --tokens a .npy."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; for texts with each filled token and its probability.")
    ] = False,
) -> None:
    """Fill gaps in texts, images, tokens.

    What is given comes back as it was, to the byte.
    """
    if num < 1:
        raise ValueError(f"ask for at least one fill, not {num}")
    if sum(source is not None for source in (text, texts, image, tokens)) != 1:
        raise ValueError("say what to fill in: one of --text, --texts, --image and --tokens")
    if (mask is None) != (outpaint is not None or (image is None and tokens is None)):
        raise ValueError("tokens need a --mask, an image either a --mask or --outpaint, and text has its [[gaps]]")
    if image is None and (outpaint is not None or mask_rule is not None):
        raise ValueError("--outpaint and --mask-rule are for images; name one with --image")
    if watch and text is None:
        raise ValueError("--watch shows one text that fills, so it goes with --text")
    if text is not None and out is not None:
        raise ValueError("the text goes to the screen; --out is for --texts, --image and --tokens")
    folder = out or Path("filled")
    if image is not None:
        require_free(folder, force)
    elif out is not None:
        require_new(out, force)
    elif tokens is not None and not as_json:
        raise ValueError("say where to put the filled tokens, e.g. --out filled.npy, or print them with --json")
    from glauber.cli.filling import infill_lines, infill_text, infill_tokens, inpaint

    calm_threads()
    options = chain_options(kernel, top_p, top_k, temperature, class_name, guidance)
    options |= {"sweeps": sweeps, "block": block, "order": order}
    began = time.perf_counter()
    if image is not None:
        rule = {} if mask_rule is None else {"mask_rule": mask_rule}
        images = inpaint(_open(model), image, mask, outpaint, num, seed, progress=not as_json, **rule, **options)
        result: dict[str, Any] = {"files": save_images(images, folder)}
    elif tokens is not None and mask is not None:
        fills = None if num == 1 else num
        result = infill_tokens(_open(model), tokens, mask, out, fills, seed, progress=not as_json, **options)
    elif texts is not None:
        infill_lines(_open(model), texts, out, num, seed, as_json, **options)
        return
    else:
        result = infill_text(_open(model), str(text), num, seed, watch, as_json, **options)
    _print_sample({"seconds": time.perf_counter() - began, **result}, as_json)


@app.command()
def vary(
    model: ModelName,
    text: Annotated[str, typer.Option(help="The text to vary, at most as long as the model's rows.")],
    strength: Annotated[
        float, typer.Option(help="How far to noise it, as a share of the chain's steps: 0 leaves it as it is, 1 forgets it.")
    ] = 0.5,
    num: Annotated[int, typer.Option("-n", "--num", help="How many variations.")] = 1,
    seed: Seed = None,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    kernel: Kernel = None,
    top_p: TopP = None,
    top_k: TopK = None,
    temperature: Temperature = None,
    as_json: Json = False,
) -> None:
    """Bring a text back another way.

    It is noised part of the way, and the chain brings it back.
    """
    from glauber.process.draws import new_generator
    from glauber.tasks.vary import vary_text

    calm_threads()
    if num < 1:
        raise ValueError(f"ask for at least one variation, not {num}")
    if not 0 <= strength <= 1:
        raise ValueError(f"strength is a share of the chain's steps, from 0 to 1, not {strength}")
    loaded = _open(model)
    options = chain_options(kernel, top_p, top_k, temperature)
    sampler = loaded.varying(sweeps=sweeps, block=block, order=order, **options)
    schedule = sampler.schedule
    t = round(strength * len(schedule.times)) * schedule.block
    began = time.perf_counter()
    codec = loaded.require_text_codec()
    texts = vary_text(sampler, codec, text, t, num, new_generator(seed), progress=not as_json)
    _print_sample({"seconds": time.perf_counter() - began, "step": t, "steps": schedule.steps, "texts": texts}, as_json)


@app.command()
def score(
    model: ModelName,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A folder that `glauber prepare` made, or tokens as .npy.")
    ] = None,
    text: Annotated[Path | None, typer.Option(help="A text file (.txt or .jsonl, also .gz, .xz) instead.")] = None,
    split: Annotated[str, typer.Option(help="Of DATA: valid or train.")] = "valid",
    rows: Annotated[int | None, typer.Option(help="Score this many windows, from the start; all if not given.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Network calls per window; more of them lower the standard error.")] = 8,
    sweeps: Sweeps = None,
    block: Block = None,
    order: Order = None,
    seed: Annotated[int, typer.Option(callback=check_seed, help="Of the steps and the noise that are drawn.")] = 0,
    as_json: Json = False,
) -> None:
    """Tell how likely a text is.

    Upper bounds in bits on what the model needs for them, for both kernels' chains, over windows that do not overlap. Exact
    where the model is autoregressive.
    """
    from glauber.cli.scoring import KINDS, only_bounds, print_score, windows_of_data, windows_of_file
    from glauber.tasks.score import score_windows

    calm_threads()
    if (data is None) == (text is None):
        raise ValueError("say what to score: a folder of prepared data, an .npy of tokens, or --text FILE")
    if rows is not None and rows < 1:
        raise ValueError(f"score at least one window, not {rows}")
    loaded = _open(model)
    windows = windows_of_file(loaded, text, rows) if text is not None else windows_of_data(loaded, data or Path(), split, rows)
    began = time.perf_counter()
    sampler = loaded.sampler(sweeps=sweeps, block=block, order=order)
    found = score_windows(sampler, windows, KINDS, draws, seed, progress=not as_json)
    used = sampler.schedule
    first = next(iter(found.values()))
    result: dict[str, Any] = {
        **{name: first[name] for name in ("rows", "tokens", "characters", "calls") if name in first},
        "length": used.length,
        "steps": used.steps,
        "block": used.block,
        "seconds": time.perf_counter() - began,
        "bounds": {name: only_bounds(figures) for name, figures in found.items()},
    }
    if as_json:
        print(json.dumps(result))
    else:
        print_score(result)


def _open(name: str) -> "Model":
    """A model, on the GPU if there is one."""
    import torch

    from glauber.model import load

    model = load(name, "cuda" if torch.cuda.is_available() else "cpu")
    _tell_unfinished(name, model)
    return model


def _tell_unfinished(name: str, model: "Model") -> None:
    """Of a run whose newest checkpoint was taken."""
    from glauber.runs import is_run

    if "checkpoint" in model.about and is_run(Path(name)):
        ended = (Path(name) / "model").is_dir()
        why = f"has gone on since the model in {Path(name) / 'model'}" if ended else "is not finished"
        print(f"glauber: {name} {why}; these are its averaged weights of step {model.about['steps']:,}", file=sys.stderr)


def _require_pictures(strip: Path | None, gif: Path | None, force: bool) -> None:
    """Refuse files for pictures that have another name than they need, or cannot be written."""
    for option, file, kind in (("--strip", strip, ".png"), ("--gif", gif, ".gif")):
        if file is not None:
            if file.suffix.lower() != kind:
                raise ValueError(f"{option} writes a {kind}; name it so, not {file.name}")
            require_new(file, force, option)


def _tell_unused(calls: int | None, sampler: "Sampler") -> None:
    """Of a budget of network calls that cannot all be used."""
    if calls is not None and (used := sampler.calls) < calls:
        schedule = sampler.schedule
        why = "more do not help" if schedule.block == 1 else f"blocks must divide the {schedule.length} sites"
        print(f"glauber: {used} of the {calls} calls are used; {why}", file=sys.stderr)


def _print_sample(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    elif "tokens_file" in result:
        print(f"the filled tokens are in {result['tokens_file']} ({result['seconds']:.1f} s)")
    elif "files" in result:
        files = result["files"]
        print(f"{len(files)} file{'s' * (len(files) > 1)} in {Path(files[0]).parent} ({result['seconds']:.1f} s)")
    elif "texts" in result:
        print(*result["texts"], sep="\n----\n")
    elif "pictures" not in result:
        for row in result["tokens"]:
            print(*row)
    if "pictures" in result and not as_json:
        print(*result["pictures"], sep="\n")
