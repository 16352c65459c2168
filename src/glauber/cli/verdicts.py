"""The command that judges texts and images: evaluate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glauber.cli.common import Json, app, require_new

if TYPE_CHECKING:
    from glauber.evaluate.tokens import TokenRows

Cell = float | int | str | None


@app.command()
def evaluate(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="What `sample --out` wrote; .txt (form feeds between texts), .jsonl, tokens as .npy; filled gaps; images.",
        ),
    ],
    reference: Annotated[
        Path | None, typer.Option(help="What is real: texts, tokens as .npy, prepared data; images, or their kept statistics.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="A causal language model: a folder, a .gguf file or a hub id. May be repeated.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="The training texts, tokens, prepared data or images: what of the samples is known there."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="What tokens stand for: a tokenizer.json, bytes, hub:NAME, a model, or prepared data.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="For images the file of an InceptionV3, for texts a sentence encoder for MAUVE.")
    ] = None,
    reconstruct: Annotated[
        str | None, typer.Option(help="Judge the images as a codec gives them back: that of a model or of data, or vq:CODEC.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file for all figures, or .safetensors for statistics; interrupted, the same command goes on."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Judge samples beside real ones.

    Texts: perplexity, entropy, MAUVE, what is copied. Images: FID, KID, precision, recall, nearest neighbours. Tokens: entropy,
    n-grams, what is copied.

    A .jsonl of filled gaps (prefix, fill, truth, suffix) is judged beside the truth; it needs no --reference.

    Images with --out NAME.safetensors and no --reference: their statistics are kept, to be a --reference later.
    """
    if out is not None:
        require_new(out, force)
    from glauber.cli.judging import holds_images, judge_images
    from glauber.evaluate.infill import evaluate_fills, read_fills
    from glauber.evaluate.text import evaluate_texts, read_texts
    from glauber.evaluate.tokens import evaluate_rows
    from glauber.provenance import write_figures

    partial = None if out is None else out.with_name(f"{out.name}.partial")
    if reconstruct is not None or holds_images(samples, features):
        if judge or tokenizer is not None:
            raise ValueError("--judge and --tokenizer are for texts, and these are images; leave them out")
        judge_images(samples, reference, features, train, reconstruct, out, force, as_json)
        return
    if _holds_fills(samples):
        report = evaluate_fills(read_fills(samples), judge or [], partial, progress=not as_json)
    elif reference is None:
        raise ValueError("samples are judged beside real ones; name some with --reference")
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
        show = print_fills if "recovery" in report else print_texts if "characters" in report["samples"] else print_tokens
        show(report)


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
    from glauber.codec import is_image_codec, text_codec
    from glauber.data import open_shards
    from glauber.model import load

    if (Path(name) / "header.json").is_file():
        codec = open_shards(name).codec
    elif name == "bytes" or name.startswith("hub:") or name.endswith(".json"):
        codec = text_codec(name)
    else:
        codec = load(name).codec
    if codec is None or is_image_codec(codec):
        raise ValueError(f"{name} has no tokenizer of text; name another with --tokenizer")
    return codec


def print_texts(report: dict[str, Any]) -> None:
    """A table of two columns, and the passages nearest to the training text."""
    both = [report["samples"], report["reference"]]
    rows: list[tuple[str, list[Cell]]] = [
        ("texts", [side["number"] for side in both]),
        ("characters of each", [side["characters"] for side in both]),
    ]
    if any(side["empty"] for side in both):
        rows.insert(1, ("empty texts, left out", [side["empty"] for side in both]))
    for k, judge in enumerate(both[0].get("judges", [])):
        ours = [side["judges"][k] for side in both]
        rows += [
            (f"judge {judge['judge']}"[:46], ["", ""]),
            ("  its tokens", [side["tokens"] for side in ours]),
            ("  perplexity, the paper's mean of exp NLL", [side["perplexity_paper"] for side in ours]),
            ("  perplexity, the usual exp of the mean", [side["perplexity"] for side in ours]),
            ("  bits per character", [side["bits_per_character"] for side in ours]),
        ]
    if "mauve" in both[0]:
        rows.append((f"MAUVE, {both[0]['mauve']['number']} against {both[0]['mauve']['number']} real", list(map(_mauve, both))))
    rows += [
        ("entropy within a text, nats", [side["entropy"] for side in both]),
        ("entropy of all texts together, nats", [side["entropy_pooled"] for side in both]),
    ]
    rows += [(f"distinct {n + 1}-grams of words", [side["distinct"][n] for side in both]) for n in range(4)]
    if "overlap" in both[0]:
        rows += [
            ("letters in words of the training text", [side["known_letters"] for side in both]),
            ("word triples that the training text has", [side["known_triples"] for side in both]),
        ]
        rows += [
            (f"shared with it, {unit}: {what}", [side["overlap"][unit][what] for side in both])
            for unit in ("characters", "words")
            for what in ("mean", "max")
        ]
    print_rows(["samples", "real text"], rows)
    print(f"entropy is that of {report['entropy_unit']}")
    for name, side in zip(("samples", "real text"), both, strict=True):
        if "overlap" in side:
            nearest = side["overlap"]["nearest"]
            print(f"longest run shared with the training text ({name}, number {nearest['sample'] + 1}):")
            print(f"  {_line(nearest['shared'])}\n  in: {_line(nearest['training_passage'])}")


def print_tokens(report: dict[str, Any]) -> None:
    """A table of two columns."""
    both = [report["samples"], report["reference"]]
    rows: list[tuple[str, list[Cell]]] = [
        ("rows", [side["number"] for side in both]),
        ("tokens of each", [side["tokens"] for side in both]),
        ("entropy within a row, nats", [side["entropy"] for side in both]),
        ("entropy of all rows together, nats", [side["entropy_pooled"] for side in both]),
    ]
    rows += [(f"distinct {n + 1}-grams of tokens", [side["distinct"][n] for side in both]) for n in range(4)]
    if "overlap" in both[0]:
        rows += [
            (f"longest run shared with the training data: {what}", [side["overlap"]["tokens"][what] for side in both])
            for what in ("mean", "max")
        ]
    print_rows(["samples", "real data"], rows)


def print_fills(report: dict[str, Any]) -> None:
    """Fills beside the truth."""
    rows: list[tuple[str, list[Cell]]] = [
        ("gaps", [report["number"], report["number"]]),
        (f"{report['recovery_unit']} as in the truth", [report["recovery"], 1.0]),
    ]
    for judge in report["judges"]:
        rows += [
            (f"judge {judge['judge']}"[:46], ["", ""]),
            ("  NLL of fill and what follows, nats", [judge["fill"]["nll"], judge["truth"]["nll"]]),
            ("  per character of these", [judge[side]["nll_per_character"] for side in ("fill", "truth")]),
            ("  more than the truth, nats", [judge["difference"], None]),
            ("  standard error of that", [judge["difference_error"], None]),
        ]
    print_rows(["fills", "truth"], rows)


def print_rows(heads: list[str], rows: list[tuple[str, list[Cell]]]) -> None:
    """At most 80 columns wide."""
    print(f"{'':<46}" + "".join(f"{head:>16}" for head in heads))
    for name, cells in rows:
        print((f"{name:<46}" + "".join(f"{_cell(cell):>16}" for cell in cells)).rstrip())


def _cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def _mauve(side: dict[str, Any]) -> str:
    return f"{side['mauve']['mean']:.3f} ± {side['mauve']['std']:.3f}"


def _line(text: str, most: int = 500) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
