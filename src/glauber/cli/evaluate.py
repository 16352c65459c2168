"""The command `evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glauber.cli.app import app, command, how, output, what
from glauber.cli.files import require_new
from glauber.cli.options import Json

if TYPE_CHECKING:
    from glauber.evaluate.tokens import TokenRows


@command(app)
def evaluate(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="What `sample --out` wrote; .txt (form feeds between texts), .jsonl, tokens as .npy; filled gaps; images.",
        ),
    ],
    reference: Annotated[
        Path | None, what(help="Real texts, tokens (.npy), prepared data, images or their statistics.")
    ] = None,
    train: Annotated[Path | None, what(help="The training data, in any of these forms: what the samples copy of it.")] = None,
    tokenizer: Annotated[
        str | None, what(help="What tokens stand for: a tokenizer.json, bytes, hub:NAME, a model, or prepared data.")
    ] = None,
    reconstruct: Annotated[
        str | None, what(help="Evaluate the images as a codec gives them back: that of a model or of data, or vq:CODEC.")
    ] = None,
    judge: Annotated[list[str] | None, how(help="Causal language model: folder, .gguf or hub id. May be repeated.")] = None,
    features: Annotated[
        str | None, how(help="For images the file of an InceptionV3, for texts a sentence encoder for MAUVE.")
    ] = None,
    out: Annotated[
        Path | None,
        output(help="A JSON file for all figures, or .safetensors for statistics; interrupted, the same command goes on."),
    ] = None,
    force: Annotated[bool, output("--force", help="Replace the file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Compare samples with real ones.

    Texts: perplexity, entropy, MAUVE, what is copied. Images: FID, KID, precision, recall, nearest neighbours. Tokens: entropy,
    n-grams, what is copied.

    A .jsonl of filled gaps (prefix, fill, truth, suffix) is compared with the truth; it needs no --reference.

    Images with --out NAME.safetensors and no --reference: their statistics are kept, to be a --reference later.
    """
    if out is not None:
        require_new(out, force)
    from glauber.cli.evaluate_images import evaluate_images, holds_images
    from glauber.cli.evaluate_tables import print_report
    from glauber.evaluate.infill import evaluate_fills, read_fills
    from glauber.evaluate.text import evaluate_texts, read_texts
    from glauber.evaluate.tokens import evaluate_rows
    from glauber.provenance import write_figures

    partial = None if out is None else out.with_name(f"{out.name}.partial")
    if reconstruct is not None or holds_images(samples, features):
        if judge or tokenizer is not None:
            raise ValueError("--judge and --tokenizer are for texts, and these are images; leave them out")
        evaluate_images(samples, reference, features, train, reconstruct, out, force, as_json)
        return
    if _holds_fills(samples):
        report = evaluate_fills(read_fills(samples), judge or [], partial, progress=not as_json)
    elif reference is None:
        raise ValueError("samples are compared with real ones; name some with --reference")
    elif tokenizer is None and (both := _token_rows(samples, reference, train)) is not None:
        if judge or features is not None:
            raise ValueError("judges read text, and these are tokens; say what they stand for with --tokenizer")
        report = evaluate_rows(*both, progress=not as_json)
    else:
        codec = None if tokenizer is None else _codec(tokenizer)
        ours, real = read_texts(samples, codec), read_texts(reference, codec)
        known = None if train is None else read_texts(train, codec, "train")
        report = evaluate_texts(ours, real, judge or [], known, codec, features, partial, progress=not as_json)
    if out is not None and partial is not None:
        write_figures(out, report)
        partial.unlink(missing_ok=True)
    if as_json:
        print(json.dumps(report))
    else:
        print_report(report)


def _holds_fills(path: Path) -> bool:
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    from glauber.runtime.files import json_lines

    try:
        _, first = next(json_lines(path), (0, None))
    except ValueError:
        return False
    return isinstance(first, dict) and "fill" in first


def _token_rows(samples: Path, reference: Path, train: Path | None) -> "tuple[TokenRows, TokenRows, TokenRows | None] | None":
    """Rows of tokens, if all are of tokens that stand for no text."""
    from glauber.evaluate.tokens import read_rows

    ours, real, known = read_rows(samples), read_rows(reference), None if train is None else read_rows(train, "train")
    if ours is None or real is None or (train is not None and known is None):
        return None
    return ours, real, known


def _codec(name: str) -> Any:
    """The codec of shards, of a model, or of `text_codec`'s names."""
    from glauber.codec import is_text_codec, text_codec
    from glauber.data import open_shards
    from glauber.model import load

    if (Path(name) / "header.json").is_file():
        codec = open_shards(name).codec
    elif name == "bytes" or name.startswith("hub:") or name.endswith(".json"):
        codec = text_codec(name)
    else:
        codec = load(name).codec
    if not is_text_codec(codec):
        raise ValueError(f"{name} has no tokenizer of text; name another with --tokenizer")
    return codec
