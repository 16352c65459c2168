"""A model of your data in one call."""

import json
import reprlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glauber.method import find_method
from glauber.model import Model, load
from glauber.process import Tokens, as_tokens
from glauber.recipe import Recipe
from glauber.runtime.files import disk_full_said
from glauber.runtime.memory import in_words
from glauber.train.choose import choose
from glauber.train.data import Data
from glauber.train.explain import lines, write_choice
from glauber.train.folder import require_place
from glauber.train.in_memory import InMemory
from glauber.train.own import BESIDE, own_data, row_length
from glauber.train.run import FLOAT, Outcome, Say, run

LONGEST_PATH = 1024
"""Characters."""
HELD_OUT = 20
"""One row in so many is kept for validation."""
STATE, MODELS = 4, 2
"""Numbers that a run keeps of each parameter: in a checkpoint, the optimiser's two among them; in the best and last models."""


def fit(
    data: str | Path | Sequence[Any] | Tokens,
    minutes: float = 5,
    classes: Sequence[Any] | None = None,
    init: str | None = None,
    out: str | Path | None = None,
    say: Say = print,
) -> Model:
    """Train a model of your data within so many minutes: size, batch, rate and all else are chosen for it, and told.

    Args:
        data: a path of what `glauber prepare` made, or reads; texts; PIL images; or an array of tokens (rows, L) or (n,).
        classes: of the images or of the rows, one each: any names or numbers.
        init: a model whose weights, shape and tokenizer it starts from, as `glauber.load` takes it.
        out: a new folder to keep the run in; nothing but the model is kept if None.
        say: what to do with what is told.
    """
    start = load(init) if init is not None else None
    with TemporaryDirectory() as folder:
        where = Path(out) if out is not None else Path(folder) / "run"
        require_place(where, resume=False)
        found = _data(data, classes, where, start, Path(folder), say)
        train_chosen(found, minutes, where, init, start, {}, say)
        return load(str(where))


def train_chosen(
    data: Data, minutes: float, out: Path, init: str | None, start: Model | None, settings: Mapping[str, Any], say: Say
) -> Outcome:
    """Choose a recipe, tell it, write it down, train by it. `start` is the model that `init` names."""
    choice = choose(data, minutes, start, settings)
    for line in lines(choice, data):
        say(line)
    require_disk(choice.plan, out)
    with disk_full_said(out, "repeat the command"):
        out.mkdir(parents=True, exist_ok=True)
        say(f"the choice is in {write_choice(choice, data, out)}, to keep or to change: glauber train --config takes it")
    return run(choice.plan, data, out, init=init, say=say, threads=choice.threads)


def require_disk(plan: Recipe, out: Path) -> None:
    """Refuse a run whose files the disk has no room for."""
    parameters = find_method(plan.method).layout(plan.network).parameters
    needed = FLOAT * parameters * (MODELS + STATE * (plan.train.keep_checkpoints + 1))
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    if needed > (free := shutil.disk_usage(there).free):
        raise ValueError(
            f"the run will take up to {in_words(needed)} in {out}, and the disk has {in_words(free)}; "
            "free some space, or name another folder with --out"
        )


def _data(data: Any, classes: Sequence[Any] | None, out: Path, init: Model | None, scratch: Path, say: Say) -> Data:
    """What was given as data, prepared beside the run unless it is tokens."""
    beside = out.with_name(out.name + BESIDE)
    if isinstance(data, str) and ("\n" in data or len(data) > LONGEST_PATH):
        raise ValueError("a text goes into a list, since a string by itself is a path; give [text], or several")
    if isinstance(data, str | Path):
        _require_no_classes(classes, "a path")
        return own_data(Path(data), beside, init, say)
    if not isinstance(data, Iterable) or getattr(data, "ndim", 1) == 0:
        raise ValueError(f"train on a path, texts, images or an array of tokens, not on {reprlib.repr(data)}")
    things: Any = data if isinstance(data, np.ndarray | torch.Tensor) else list(data)
    if len(things) == 0:
        raise ValueError("there is nothing to train on; give at least one text, image or row of tokens")
    if classes is not None and len(classes) != len(things):
        raise ValueError(f"there are {len(things):,} rows, and {len(classes):,} classes; give one class for each row")
    if all(isinstance(thing, str) for thing in things):
        _require_no_classes(classes, "texts")
        return own_data(_written_texts(things, scratch), beside, init, say)
    if all(hasattr(thing, "convert") for thing in things):
        return own_data(_written_images(things, classes, scratch / "images"), beside, init, say)
    return _tokens(as_tokens(things), classes, init)


def _require_no_classes(classes: Any, what: str) -> None:
    if classes is not None:
        raise ValueError(f"classes go with images and with rows of tokens, not with {what}; leave them out")


def _written_texts(texts: Sequence[str], scratch: Path) -> Path:
    path = scratch / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def _written_images(images: Sequence[Any], classes: Sequence[Any] | None, folder: Path) -> Path:
    """PIL images as files, in sub-folders named after their classes if they have any."""
    for number, image in enumerate(images):
        name = "" if classes is None else str(classes[number])
        if classes is not None and (not name or name.startswith(".") or Path(name).name != name):
            raise ValueError(f"a class of images is named as a folder can be, not {name!r}; rename it")
        (folder / name).mkdir(parents=True, exist_ok=True)
        image.save(folder / name / f"{number:08d}.png")
    return folder


def _tokens(tokens: Tensor, classes: Sequence[Any] | None, init: Model | None) -> Data:
    """Rows in memory, some of them drawn at random for validation; one long array is cut into rows."""
    if tokens.dim() == 1 and classes is None:
        length = row_length(len(tokens))
        tokens = tokens[: len(tokens) // length * length].view(-1, length)
    if tokens.dim() != 2 or not tokens.numel() or int(tokens.min()) < 0:
        raise ValueError(f"tokens are whole numbers from 0, of shape (rows, L) or (n,), not {tuple(tokens.shape)}")
    vocab = max(2, int(tokens.max()) + 1) if init is None else init.network.config.vocab
    if int(tokens.max()) >= vocab:
        raise ValueError(
            f"the data has a token {int(tokens.max()):,}, and the model of init none above {vocab - 1:,}; leave it out"
        )
    names = sorted({str(name) for name in classes}) if classes is not None else []
    place = {name: number for number, name in enumerate(names)}
    told = None if classes is None else torch.tensor([place[str(name)] for name in classes])
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))
    held = max(1, len(tokens) // HELD_OUT) if len(tokens) > 1 else 0
    valid, train = (InMemory(tokens[part], None if told is None else told[part]) for part in (order[:held], order[held:]))
    digest = sha256(tokens.numpy().tobytes() + json.dumps([vocab, list(map(str, classes or []))]).encode()).hexdigest()
    counts = torch.from_numpy(train.tokens).flatten().bincount(minlength=vocab)
    codec = None if init is None else init.codec
    return Data(train, valid, vocab, tokens.shape[1], counts, codec, digest, tuple(names))
