"""The command `prepare`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glauber.cli.app import app, command, how, output, program, what
from glauber.cli.files import require_writable
from glauber.cli.options import Codec

if TYPE_CHECKING:
    from glauber.data import Shards


@command(app)
def prepare(
    sources: Annotated[
        list[str], typer.Argument(metavar="SRC...", help="Texts, .jsonl, images, folders of these, tokens as .npy, hub:NAME.")
    ],
    out: Annotated[Path, output(help="Folder for the token shards.")],
    valid: Annotated[
        list[str] | None,
        what(help="What to validate on: a share of SRC, 0.01 if not given, or a file or folder. May be repeated."),
    ] = None,
    field: Annotated[str, what(help="Where the text is in a line of .jsonl.")] = "text",
    classes: Annotated[bool, what("--classes", help="The sub-folders of images are their classes; keep them.")] = False,
    tokenizer: Annotated[
        str,
        how(help="char, bytes, bpe:8192, a tokenizer.json or hub:NAME; for images patches:512:4, pixels:16 or vq:CODEC."),
    ] = "char",
    length: Annotated[int | None, how(help="Tokens of a row, L; 256 if not given. Images have their own.")] = None,
    vocab: Annotated[int | None, how(help="Vocabulary size of tokens in .npy.")] = None,
    size: Annotated[int | None, how(help="Cut images to squares and resize these to so many pixels a side.")] = None,
    grey: Annotated[bool, how("--grey", help="Make images grey; as pixels they always are.")] = False,
    codec: Codec = None,
    force: Annotated[bool, output("--force", help="Replace finished data in --out.")] = False,
) -> None:
    """Make data of texts, images, tokens.

    The folder then holds shards of tokens to train on. The same command goes on after an interruption.
    """
    require_writable(out)
    from glauber.codec import use_codec
    from glauber.data import prepare as prepare_data
    from glauber.data.named import prepare_named

    share = _validation(valid or [])
    if codec is not None:
        if (field, classes, tokenizer, length, vocab, size, grey) != ("text", False, "char", None, None, None, False):
            raise ValueError("with --codec the codec alone says how rows are made; of the options only --valid goes with it")
        shards = prepare_named(use_codec(codec), sources, out, share, force=force)
    else:
        shards = prepare_data(sources, out, tokenizer, length, share, field, vocab, size, grey, force=force, classes=classes)
    rows = {split: len(shards.rows(split)) for split in ("train", "valid")}
    print(f"{rows['train']:,} rows to train on and {rows['valid']:,} to validate, of {shards.length} tokens, in {out}")
    words = shlex.join(
        ["train", "--recipe", "small", "--data", str(out), "--out", "run", *_settings_for(shards), *_named(codec)]
    )
    print(f"vocabulary {shards.vocab:,}; try: {program()} {words}")


def _named(codec: str | None) -> list[str]:
    """What a command must say of a codec that no package registers."""
    return [] if codec is None or ":" not in codec else ["--codec", codec]


def _validation(words: list[str]) -> float | list[str]:
    """A share, or what to read."""
    if not words:
        return 0.01
    try:
        return float(words[0]) if len(words) == 1 else words
    except ValueError:
        return words


def _settings_for(shards: "Shards") -> list[str]:
    """What the recipe small, made for rows of 256 tokens, needs here: as many tokens a step, no causal network for classes."""
    changes: dict[str, object] = {} if shards.length == 256 else {"train.batch": max(2, 2048 // shards.length // 2 * 2)}
    changes |= {"network.causal": "false", "train.causal_every": 0} if shards.classes else {}
    return [f"--set={name}={value}" for name, value in changes.items()]
