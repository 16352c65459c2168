"""Samples of text beside held-out real text: every figure for both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from glauber.codec import TextCodec
from glauber.data import Sources, open_shards
from glauber.evaluate.diversity import Known, distinct, mean_entropy, pooled_entropy, words
from glauber.evaluate.encoder import Encoder
from glauber.evaluate.judge import Judge, perplexities
from glauber.evaluate.mauve import FEWEST, mauve
from glauber.evaluate.overlap import Overlap, characters, joined, longest_overlaps
from glauber.evaluate.pretrained import find_model
from glauber.evaluate.score_cache import ScoreCache
from glauber.runtime.files import read_json

HEADER, SAMPLES = "header.json", "samples.json"
Item = TypeVar("Item")
AROUND = 60
"""Characters that are shown on either side of a passage of the training text."""


@dataclass
class Texts:
    """Texts, and the tokens that they were decoded from where these are known."""

    source: str
    texts: list[str]
    tokens: list[list[int]] | None = None
    empty: int = 0
    """How many others were left out, since nothing stood in them."""


def read_texts(source: str | Path, codec: TextCodec | None = None, split: str = "valid") -> Texts:
    """Texts of a file or folder.

    .txt with form feeds between, .jsonl with a field "text", a folder of these (packed or not); what `glauber sample --out`
    wrote; .npy of tokens, which needs the codec; or a folder of shards, of which the rows of `split` are taken.
    """
    path = Path(source)
    if path.is_dir() and (path / HEADER).is_file():
        return _shards(path, split)
    if path.is_dir() and (path / SAMPLES).is_file():
        path = path / SAMPLES
    if path.suffix == ".json":
        return _samples(path)
    named = [path] if path.is_file() else [*path.rglob("*")]
    holds_tokens = any(file.suffix == ".npy" for file in named)
    if holds_tokens and codec is None:
        raise ValueError(f"{path} holds tokens; say what they stand for with --tokenizer: a tokenizer.json, or their model")
    sources = Sources([path], vocab=codec.vocab if codec is not None and holds_tokens else None)
    parts: list[list[Any]] = []
    for piece in sources.pieces():
        if piece.starts or not parts:
            parts.append([])
        parts[-1].append(piece.data)
    if holds_tokens and codec is not None:
        tokens = [np.concatenate(part).tolist() for part in parts]
        return _some(Texts(str(source), [codec.decode(row) for row in tokens], tokens))
    return _some(Texts(str(source), ["".join(part) for part in parts]))


def _shards(path: Path, split: str) -> Texts:
    """The rows of a split, each a text; those of "train", which are many, as the documents that they were cut from."""
    shards = open_shards(path)
    if shards.codec is None:
        raise ValueError(f"the shards in {path} are tokens without a codec, so no text; give the text itself")
    rows = shards.rows(split)
    if split == "train":
        stream = np.concatenate([rows[at : at + 2**12].reshape(-1).astype(np.uint32) for at in range(0, len(rows), 2**12)])
        parts = np.split(stream, np.flatnonzero(stream == shards.codec.end))
        return _some(Texts(str(path), [text for part in parts if (text := shards.codec.decode(part))]))
    tokens = rows[:].tolist()
    return _some(Texts(str(path), [shards.codec.decode(row) for row in tokens]))


def _samples(path: Path) -> Texts:
    try:
        said = read_json(path)
        made = Texts(str(path), list(said["texts"]), said.get("tokens"))
        good = all(isinstance(text, str) for text in made.texts)
        good = good and (made.tokens is None or _are_rows(made.tokens, len(made.texts)))
    except (OSError, ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise ValueError(f'{path} has no "texts", or other "tokens"; give what `glauber sample --out` wrote for a text model')
    return _some(made)


def _are_rows(tokens: Any, number: int) -> bool:
    """Whether they are so many lists of whole numbers."""
    same = isinstance(tokens, list) and len(tokens) == number and all(isinstance(row, list) for row in tokens)
    return same and all(type(token) is int for row in tokens for token in row)


def _some(texts: Texts) -> Texts:
    """Without the empty ones."""
    there = [k for k, text in enumerate(texts.texts) if text.strip()]
    if not there:
        raise ValueError(f"{texts.source} holds no text; there is nothing to evaluate in it")
    tokens = None if texts.tokens is None else [texts.tokens[k] for k in there]
    return Texts(texts.source, [texts.texts[k] for k in there], tokens, len(texts.texts) - len(there))


def passages(texts: Sequence[str], length: int) -> list[str]:
    """Texts cut into passages of about `length` characters, as they all must be to be compared; shorter texts stay whole.

    A passage begins where a word does. What is left at a text's end is not used.
    """
    found = []
    for text in texts:
        if len(text) < 1.5 * length:
            found.append(text)
            continue
        at = 0
        while len(text) - at >= length:
            found.append(text[at : at + length])
            at += length
            while at < len(text) and not text[at - 1].isspace():
                at += 1
    return [passage for passage in found if passage.strip()]


def spread(passages: Sequence[Item], number: int) -> list[Item]:
    """At most `number` of them, from all parts alike."""
    if len(passages) <= number:
        return list(passages)
    return [passages[k] for k in np.linspace(0, len(passages) - 1, number).round().astype(int)]


def evaluate_texts(
    samples: Texts,
    reference: Texts,
    judges: Sequence[str | Judge] = (),
    train: Texts | None = None,
    codec: TextCodec | None = None,
    features: str | None = None,
    partial: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Every figure of the samples, and of as many passages of real text of their length.

    Args:
        judges: causal language models, see `Judge`, by name or loaded; the first also gives the features for MAUVE.
        train: the training text, for what of the samples it knows.
        codec: of the model; entropy is then that of its tokens, else of the first judge's, or of words.
        features: a sentence encoder for MAUVE instead.
        partial: a file that keeps the scores, from which an interrupted evaluation goes on.
    """
    for name in [*judges, *([features] if features is not None else [])]:
        if isinstance(name, str):
            find_model(name)  # before anything that takes time
    if len(samples.texts) < 2:
        raise ValueError(
            f"{samples.source} holds only one text that is not empty; give at least two samples (in a .txt, form feeds between)"
        )
    length = int(np.median([len(text) for text in samples.texts]))
    held_out = spread(passages(reference.texts, length), 2 * len(samples.texts))
    if len(held_out) < 2:
        raise ValueError(f"{reference.source} is too short to compare with; give at least twice as much as there is of samples")
    sides = {"samples": samples.texts, "reference": held_out[::2]}  # and MAUVE compares both with the rest
    rest = held_out[1::2]
    report: dict[str, Any] = {
        name: {
            "source": given.source,
            "number": len(texts),
            "empty": given.empty,
            "characters": float(np.mean([len(text) for text in texts])),
        }
        for (name, texts), given in zip(sides.items(), (samples, reference), strict=True)
    }
    for name, texts in sides.items():
        split = [words(text) for text in texts]
        report[name]["distinct"] = [distinct(split, n) for n in (1, 2, 3, 4)]
    if train is not None:
        _compare(report, sides, train, progress)
    first = _score(report, sides, rest, judges, features is None, ScoreCache(partial), progress)
    tokens, unit = _tokens(sides, samples.tokens, codec, first)
    for name in sides:
        report[name] |= {"entropy": mean_entropy(tokens[name]), "entropy_pooled": pooled_entropy(tokens[name])}
    report["entropy_unit"] = unit
    if features is not None:
        encoder = Encoder(features)
        found = {name: encoder.features(texts, progress) for name, texts in (sides | {"rest": rest}).items()}
        _mauve(report, found, encoder.name)
    return report


def _score(
    report: dict[str, Any],
    sides: dict[str, list[str]],
    rest: list[str],
    judges: Sequence[str | Judge],
    features: bool,
    cache: ScoreCache,
    progress: bool,
) -> Judge | None:
    """Each judge's figures of each side, and MAUVE by the first judge's features; the first judge."""
    first = None
    for name in judges:
        judge = name if isinstance(name, Judge) else Judge(name, progress)
        wanted = features and first is None and min(len(rest), *map(len, sides.values())) >= FEWEST
        found = {}
        for side, texts in (sides | {"rest": rest} if wanted else sides).items():
            found[side] = judge.scores(texts, wanted, cache, progress)
            if side in sides:
                said = {"judge": judge.name, "tokens": sum(score.tokens for score in found[side])}
                raw = {"nll": [score.nll for score in found[side]], "lengths": [score.tokens for score in found[side]]}
                report[side].setdefault("judges", []).append(said | perplexities(found[side]) | raw)
        if wanted:
            arrays = {side: np.stack([s.feature for s in scores if s.feature is not None]) for side, scores in found.items()}
            _mauve(report, arrays, judge.name)
        first = first or judge
    return first


def _mauve(report: dict[str, Any], features: dict[str, np.ndarray], name: str) -> None:
    number = min(map(len, features.values()))
    if number >= FEWEST:
        for side in ("samples", "reference"):
            found = mauve(features[side][:number], features["rest"][:number])
            report[side]["mauve"] = found._asdict() | {"features": name}


def _tokens(
    sides: dict[str, list[str]], own: list[list[int]] | None, codec: TextCodec | None, judge: Judge | None
) -> tuple[dict[str, list[Any]], str]:
    """The tokens of each side that entropy is counted over, and what they are."""
    if codec is not None:
        return {"samples": own or codec.encode_batch(sides["samples"]), "reference": codec.encode_batch(sides["reference"])}, (
            "the model's tokens"
        )
    if judge is not None:
        return {name: judge.tokens(texts) for name, texts in sides.items()}, f"tokens of {judge.name}"
    return {name: [words(text) for text in texts] for name, texts in sides.items()}, "words"


def _compare(report: dict[str, Any], sides: dict[str, list[str]], train: Texts, progress: bool) -> None:
    """What of each side the training text knows, and the longest runs that they share."""
    known = Known(train.texts, progress)
    everything = [text for texts in sides.values() for text in texts]
    by_words = longest_overlaps(joined(known.documents), [known.encode(text) for text in everything], progress)
    array = joined([characters(text) for text in train.texts])
    by_characters = longest_overlaps(array, [characters(text) for text in everything], progress)
    at = 0
    for name, texts in sides.items():
        here = slice(at, at + len(texts))
        at += len(texts)
        report[name] |= {"known_letters": known.letters_share(texts), "known_triples": known.triples_share(texts)}
        report[name]["overlap"] = {
            "characters": lengths(by_characters[here]),
            "words": lengths(by_words[here]),
            "nearest": _nearest(texts, by_characters[here], array),
        }


def lengths(overlaps: Sequence[Overlap]) -> dict[str, Any]:
    """Of the longest shared run of each."""
    each = [overlap.length for overlap in overlaps]
    return {"mean": float(np.mean(each)), "max": max(each), "all": each}


def _nearest(texts: Sequence[str], overlaps: Sequence[Overlap], train: np.ndarray) -> dict[str, Any]:
    """The longest run of all, and the passage of the training text around it."""
    worst = max(range(len(texts)), key=lambda k: overlaps[k].length)
    length, at, where = overlaps[worst]
    around = train[max(0, where - AROUND) : where + length + AROUND].tolist()
    before = around[: where - max(0, where - AROUND)]
    begin = len(before) - before[::-1].index(0) if 0 in before else 0
    after = around[len(before) + length :]
    end = len(before) + length + (after.index(0) if 0 in after else len(after))
    passage = "".join(map(chr, around[begin:end]))
    return {"sample": worst, "shared": texts[worst][at : at + length], "training_passage": passage}
