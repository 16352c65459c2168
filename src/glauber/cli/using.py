"""Commands that use a model: sample, infill."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from glauber.cli.common import (
    Block,
    Force,
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
    chain_options,
    open_image,
    require_free,
    save_images,
)


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
    out: Annotated[Path | None, typer.Option(help="Folder for the images, or for samples.json.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw samples: images into a folder, text onto the screen. What is not set is the model's own."""
    from glauber.codec import is_image_codec
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one sample, not {num}")
    loaded = load(model)
    if is_image_codec(loaded.codec) and out is None:
        raise ValueError("this model makes images; say where to put them, e.g. --out samples")
    if out is not None:
        require_free(out, force)
    began = time.perf_counter()
    options = chain_options(kernel, top_p, top_k, temperature)
    tokens = loaded.sample_tokens(num, seed, sweeps, block, order, progress=not as_json, **options)
    result: dict[str, Any] = {"tokens": tokens.tolist(), "seconds": time.perf_counter() - began}
    if is_image_codec(loaded.codec) and out is not None:
        result["files"] = save_images(loaded.decode(tokens), out)
    else:
        if loaded.codec is not None:
            result["texts"] = loaded.decode(tokens)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "samples.json").write_text(json.dumps(result) + "\n")
            result["files"] = [str(out / "samples.json")]
    _print_sample(result, as_json)


@app.command()
def infill(
    model: ModelName,
    image: Annotated[Path, typer.Option(help="The image, of the size that the model was trained on.")],
    mask: Annotated[Path, typer.Option(help="An image of the same size: white is filled in, black stays.")],
    num: Annotated[int, typer.Option("-n", "--num", help="How many different fills.")] = 1,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for the filled images.")] = Path("filled"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fill the white part of a mask in. The rest of the image comes back as it was."""
    from glauber.codec import is_image_codec
    from glauber.model import load

    if num < 1:
        raise ValueError(f"ask for at least one fill, not {num}")
    require_free(out, force)
    loaded = load(model)
    picture, hole = open_image(image), open_image(mask).convert("L")
    if is_image_codec(loaded.codec) and len(loaded.codec.shape) == 2:
        picture = picture.convert("L")
    began = time.perf_counter()
    images = loaded.inpaint(picture, hole, num, seed, progress=not as_json)
    _print_sample({"seconds": time.perf_counter() - began, "files": save_images(images, out)}, as_json)


def _print_sample(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    elif "files" in result:
        files = result["files"]
        print(f"{len(files)} file{'s' * (len(files) > 1)} in {Path(files[0]).parent} ({result['seconds']:.1f} s)")
    elif "texts" in result:
        print(*result["texts"], sep="\n----\n")
    else:
        for row in result["tokens"]:
            print(*row)
