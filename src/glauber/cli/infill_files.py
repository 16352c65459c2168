"""What `infill` does with files: images, tokens, lines of text."""

import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from glauber.cli.options import ClassOptions
from glauber.cli.replay import all_watches
from glauber.cli.view import view_of
from glauber.codec import NamedCodec, is_image_codec
from glauber.data.images import open_image
from glauber.model import Model
from glauber.process.draws import new_generator
from glauber.runtime.files import json_lines, read_array, whole_lines, write
from glauber.runtime.locks import locked
from glauber.runtime.progress import progress_bar
from glauber.tasks.constraints import Choice
from glauber.tasks.infill import filling, nats_per_character
from glauber.tasks.inpaint import placed
from glauber.tasks.lengths import require_known_law
from glauber.tasks.steps import run_alone
from glauber.tasks.template import Filled, Gap, read_pattern
from glauber.tasks.windows import Watch


def inpaint(
    loaded: Model, image: Path, mask: Path | None, outpaint: str | None, num: int, seed: int | None, **options: Any
) -> list[Any]:
    """The image with the white part of the mask filled in, or what is around it, `num` times."""
    if not is_image_codec(loaded.codec):
        raise ValueError("this model has no image codec; give it a text or tokens instead")
    shape = loaded.codec.shape
    picture = np.asarray(open_image(image).convert("L" if len(shape) == 2 else "RGB"))
    free = np.zeros(0)
    if mask is not None and mask.suffix == ".npy":
        free = read_array(mask)
    elif mask is not None:
        free = np.asarray(open_image(mask, paper="black").convert("L"))  # what can be seen through is not white
    if outpaint is not None:
        picture, free = placed(picture, shape, *_place(outpaint))
    images: list[Any] = loaded.inpaint(picture, free, num, seed, **options)
    return images


def _place(word: str) -> tuple[int, int] | tuple[None, None]:
    """Pixels from the left and the top, as in 8,16."""
    if word == "middle":
        return None, None
    left, comma, top = word.partition(",")
    if not comma or not left.strip().isdecimal() or not top.strip().isdecimal():
        raise ValueError(f"--outpaint is 'middle', or pixels from the left and the top such as 8,16, not {word!r}")
    return int(left), int(top)


def infill_tokens(
    loaded: Model, tokens: Path, mask: Path, out: Path | None, num: int | None, seed: int | None, **options: Any
) -> dict[str, Any]:
    """Two .npy in, one out; or the tokens themselves, where there is no file for them."""
    given, free = read_array(tokens), read_array(mask)
    for array in (given, free):
        if not array.ndim or array.shape[-1] > loaded.process.length:  # before its numbers are read
            whole = loaded.process.length
            raise ValueError(f"this model takes rows of at most {whole} tokens, not an array of shape {array.shape}")
    if given.dtype.kind not in "iu":
        raise ValueError(f"{tokens} holds no whole numbers, so these are no tokens")
    if free.dtype.kind not in "biu" or not set(np.unique(free).tolist()) <= {0, 1}:
        raise ValueError(f"{mask} is no mask; it holds true (or 1) where tokens are filled in, and false elsewhere")
    filled = loaded.infill_tokens(given, free != 0, num, seed, **options)
    if out is None:
        return {"tokens": filled.tolist()}
    content = io.BytesIO()
    np.save(content, filled.numpy())
    write(out, content.getvalue())
    return {"tokens_file": str(out)}


def infill_named(
    loaded: Model, file: Path, part: str | None, folder: Path, num: int, seed: int | None, **options: Any
) -> dict[str, Any]:
    """The files that a user's codec writes of a row of which it has read a part, `num` times."""
    codec = loaded.codec
    if not isinstance(codec, NamedCodec):
        raise ValueError("this model is none of music; give it a text, an image or tokens instead")
    if not codec.saves:
        raise ValueError(f"the codec {codec.name} cannot write what is filled in: it has no method save")
    given, row = codec.given(file, part)
    filled = loaded.infill_tokens(row, ~given, num, seed, **options)
    return {"files": [str(path) for path in codec.save(filled, folder)]}


def infill_text(
    loaded: Model,
    text: str,
    num: int,
    seed: int | None,
    options: ClassOptions,
    wanted: dict[str, Any],
    watch: bool,
    as_json: bool,
    recorder: Watch | None = None,
) -> dict[str, Any]:
    """One text, to be watched if wanted, in a terminal or by a recorder; `wanted` are keywords of `filling`."""
    codec, sampler = loaded.require_text_codec(), loaded.sampler(**options.chosen(), gaps=True)
    view = view_of(codec, sampler.schedule) if watch else None
    bar = view is None and not as_json
    watches = all_watches([view, recorder])
    filled = run_alone(filling(sampler, codec, text, num, new_generator(seed), as_json, watches, bar, **wanted))
    if view is not None:
        view.clear()
    if not as_json:
        _say_how_chosen(filled, wanted["choice"])
    return _fills(filled, as_json)


def infill_lines(
    loaded: Model,
    path: Path,
    out: Path | None,
    num: int,
    seed: int | None,
    options: ClassOptions,
    wanted: dict[str, Any],
    as_json: bool,
) -> None:
    """Each line's texts: on the screen as soon as they are there, in a file when all are. Line k has the seed `seed + k`.

    Until then the file's lines stand in another file in its folder, from which the same command goes on.
    """
    records = _read_lines(path)
    codec, sampler = loaded.require_text_codec(), loaded.sampler(**options.chosen(), gaps=True)
    for number, record in enumerate(records, 1):
        try:
            pattern = read_pattern(record["text"], codec, sampler.length)
            if not pattern.fixed:
                require_known_law(sampler)
        except ValueError as error:
            raise ValueError(f"line {number} of {path}: {error}") from None

    def line(k: int) -> bytes:
        own = None if seed is None else seed + k
        filled = run_alone(filling(sampler, codec, records[k]["text"], num, new_generator(own), as_json, **wanted))
        return _line({**records[k], **_fills(filled, as_json)})

    if out is None:
        _write_lines(sys.stdout.buffer, line, range(len(records)))
        return
    part = out.with_name(f"{out.name}.{_digest(loaded, records, num, seed, as_json, options.chosen(), wanted)}.part")
    with locked(part, f"another process fills these texts into {out} at this moment; wait until it ends"):
        whole = whole_lines(part)
        os.truncate(part, len(whole))
        try:
            with part.open("ab") as file:
                _write_lines(file, line, range(whole.count(b"\n"), len(records)))
        except KeyboardInterrupt:
            done = whole_lines(part).count(b"\n")
            print(f"glauber: {done} of {len(records)} are in {part}; the same command goes on", file=sys.stderr)
            raise
        part.replace(out)
    print(f"{len(records)} text{'s' * (len(records) > 1)} in {out}")


def _write_lines(file: BinaryIO, line: Callable[[int], bytes], left: range) -> None:
    """Each of them as soon as it is there."""
    with progress_bar(True, left.stop, "infill", "text", initial=left.start, leave=False) as bar:
        for k in left:
            file.write(line(k))
            file.flush()
            bar.update()


def _line(record: dict[str, Any]) -> bytes:
    """As readable as can be: half a character, which a field of the user's may hold, has to stay as it was written."""
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record).encode() + b"\n"


def _digest(loaded: Model, *request: Any) -> str:
    """Of a model and what is wanted of it."""
    weights = sum(parameter.detach().double().sum().item() for parameter in loaded.network.parameters())
    return hashlib.sha256(json.dumps([loaded.config(), weights, *request], default=str).encode()).hexdigest()[:8]


def _say_how_chosen(filled: list[Filled], choice: Choice) -> None:
    """On stderr, so that stdout has the texts alone."""
    if choice.best_of is not None:
        said = ", ".join(f"{nats_per_character(each):.3f}" for each in filled)
        print(f"likeliest of {choice.best_of} fills, in nats per character of the whole text: {said}", file=sys.stderr)
    for each in filled:
        if each.effective is not None:
            sizes = " and ".join(str(len(gap.tokens)) for gap in each.gaps)
            among = f"chosen among {choice.draws} draws; effective sample size {each.effective:.1f}"
            print(f"length {sizes}, {among}", file=sys.stderr)


def _fills(filled: list[Filled], as_json: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"texts": [each.text for each in filled]}
    if as_json:
        result["gaps"] = [
            [
                {
                    "text": gap.text,
                    "tokens": [
                        {"token": token, "text": piece, "probability": probability, "nats": nats}
                        for token, piece, probability, nats in _tokens_of(gap)
                    ],
                }
                for gap in each.gaps
            ]
            for each in filled
        ]
        result["fills"] = [
            {
                "nats": each.nats,
                "nats_per_character": None if each.nats is None else nats_per_character(each),
                "calls": each.calls,
                "effective_sample_size": each.effective,
            }
            for each in filled
        ]
    return result


def _tokens_of(gap: Gap) -> Iterator[tuple[int, str, float, float | None]]:
    """Each token, its text, its probability given all others, and what it costs given those before, where that is known."""
    nats: Sequence[float | None] = gap.nats or [None] * len(gap.tokens)
    return zip(gap.tokens, gap.pieces, gap.probabilities or [], nats, strict=True)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    records = []
    for number, record in json_lines(path):
        records.append(record)
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise ValueError(f'line {number} of {path} has no field "text" that holds a text')
    if not records:
        raise ValueError(f'{path} is empty; write a line such as {{"text": "It was the [[12]] of times"}}')
    return records
