"""A user's own codec: a small Python class that is found by a name and checked, and of which a model keeps the name alone.

The class has no arguments, and has

    shape   of a row of tokens, such as (64, 4): one axis, or several
    vocab   V
    names   of the V tokens, for people
    encode  a file → rows of tokens (rows, *shape); or a table of such rows by split: train, valid, ...
    decode  a row of tokens (*shape) → the thing itself

and, if it likes,

    allowed  (*shape, V) bool, the tokens that each site may hold
    save     (a row, a path without its ending) → the paths of the files that it wrote
    given    (a file, what of it to fill in or None) → the sites that it gives, (*shape) bool, and a row of tokens

A name is that of an entry point in the group `glauber.codecs`, or module:Class. Code of the second kind is imported because the
user says so, and never because a model's folder does.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glauber.codec.protocol import Ids, check_tokens

GROUP = "glauber.codecs"
NEEDED = ("shape", "vocab", "names", "encode", "decode")
_chosen: dict[str, "NamedCodec"] = {}


class NamedCodec:
    """What a user's class makes of files, checked at each use. Shapes: N rows, L sites, V tokens.

    Args:
        name: by which a model's folder knows it.
        own: an object of the user's class.
    """

    kind: ClassVar[str] = "named"

    def __init__(self, name: str, own: Any):
        self.name, self.own = name, own
        missing = [part for part in NEEDED if not hasattr(own, part)]
        if missing:
            raise ValueError(f"the codec {name} has no {missing[0]}; a codec has {', '.join(NEEDED)}")
        self.shape, self.vocab = _shape(name, own.shape), own.vocab
        if type(self.vocab) is not int or self.vocab < 2:
            raise ValueError(f"the codec {name} has a vocab of {self.vocab!r}; it is a whole number above 1")
        self.names = [str(each) for each in own.names]
        if len(self.names) != self.vocab:
            raise ValueError(f"the codec {name} names {len(self.names)} tokens and has {self.vocab}; give each one name")
        self.allowed = self._allowed(getattr(own, "allowed", None))

    @property
    def length(self) -> int:
        """L."""
        return prod(self.shape)

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns, for positions on both axes; None for a shape that has one axis, or more than two."""
        return (self.shape[0], self.shape[1]) if len(self.shape) == 2 else None

    def _allowed(self, mask: Any) -> Tensor | None:
        if mask is None:
            return None
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (*self.shape, self.vocab):
            due = (*self.shape, self.vocab)
            raise ValueError(f"the codec {self.name} has an allowed of shape {array.shape}; it is booleans of shape {due}")
        allowed = torch.from_numpy(array.reshape(self.length, self.vocab))
        empty = (~allowed.any(1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"the codec {self.name} allows no token at {self._place(empty[0])}; allow it one")
        return allowed

    def encode(self, file: Path) -> dict[str, Tensor]:
        """Rows (N, L) by split; under "" where the codec does not split them itself. Encoded twice, to see that they agree."""
        first, again = (self._splits(self.own.encode(Path(file))) for _ in range(2))
        if first.keys() != again.keys() or any(not torch.equal(rows, again[split]) for split, rows in first.items()):
            raise ValueError(f"the codec {self.name} makes other tokens of {file} the second time; it must be deterministic")
        return first

    def _splits(self, made: Any) -> dict[str, Tensor]:
        parts = made if isinstance(made, Mapping) else {"": made}
        return {str(split): self.check(rows) for split, rows in parts.items()}

    def check(self, made: Any) -> Tensor:
        """What a codec made, as rows (N, L); refused where it is no row of tokens of this codec."""
        try:
            array = np.asarray(made)
        except ValueError as error:
            raise ValueError(f"the codec {self.name} makes rows of different shapes; each is of shape {self.shape}") from error
        if array.shape[1:] != self.shape or array.ndim != 1 + len(self.shape):
            due = f"(rows, {', '.join(map(str, self.shape))})"
            raise ValueError(f"the codec {self.name} makes tokens of shape {array.shape}, and says {due}")
        try:
            rows = check_tokens(array.reshape(len(array), self.length), self.vocab, self.length)
        except ValueError as error:
            raise ValueError(f"the codec {self.name} makes what are no tokens of it: {error}") from error
        self._check_allowed(rows)
        return rows

    def _check_allowed(self, rows: Tensor) -> None:
        if self.allowed is None:
            return
        wrong = (~self.allowed.expand(len(rows), -1, -1).gather(-1, rows[..., None]).squeeze(-1)).nonzero()
        if len(wrong):
            row, site = wrong[0].tolist()
            token = self.names[int(rows[row, site])]
            raise ValueError(f"the codec {self.name} puts {token} at {self._place(site)}, and does not allow it there")

    def _place(self, site: int) -> str:
        return f"site {tuple(map(int, np.unravel_index(site, self.shape)))}"

    def rows(self, tokens: Ids) -> list[np.ndarray]:
        """Tokens (N, L) as the codec's own rows."""
        checked = check_tokens(tokens, self.vocab, self.length)
        return list(checked.numpy().reshape(len(checked), *self.shape))

    def decode(self, tokens: Ids) -> list[Any]:
        """Of rows (N, L) the things themselves."""
        return [self.own.decode(row) for row in self.rows(tokens)]

    @property
    def saves(self) -> bool:
        """Whether it writes files of a row."""
        return hasattr(self.own, "save")

    def save(self, tokens: Ids, folder: Path) -> list[Path]:
        """The files of rows (N, L), in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(file) for k, row in enumerate(self.rows(tokens)) for file in self.own.save(row, folder / f"{k:04d}")]

    def given(self, file: Path, part: str | None) -> tuple[Tensor, Tensor]:
        """What a file gives: the sites, (L,) bool, and a row of tokens, (L,)."""
        if not hasattr(self.own, "given"):
            raise ValueError(f"the codec {self.name} cannot fill a file in: it has no method given")
        mask, row = self.own.given(Path(file), part)
        sites = np.asarray(mask)
        if sites.shape != self.shape or sites.dtype != np.bool_:
            raise ValueError(f"the codec {self.name} gives sites of shape {sites.shape}, not booleans of shape {self.shape}")
        return torch.from_numpy(sites.reshape(-1)), self.check(np.asarray(row)[None])[0]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}

    def tensors(self) -> dict[str, Tensor]:
        return {}


def use_codec(word: str) -> NamedCodec:
    """The codec that the user names, an entry point or module:Class; models that keep this name then find it."""
    if ":" in word and word not in _chosen:
        _chosen[word] = NamedCodec(word, _make(word, _imported(word)))
    return named_codec(word)


def named_codec(name: str) -> NamedCodec:
    """The codec of a name that a folder holds: one that the user chose, or that an installed package registers."""
    if name not in _chosen:
        found = [point for point in entry_points(group=GROUP) if point.name == name]
        if len({point.value for point in found}) > 1:
            raise ValueError(f"several packages register a codec {name}: {', '.join(point.value for point in found)}; keep one")
        if not found:
            how = f"name it with --codec {name}" if ":" in name else "install the package that registers it"
            raise ValueError(f"the codec {name} is not here; {how} (from Python: glauber.codec.use_codec)")
        _chosen[name] = NamedCodec(name, _make(name, found[0].load()))
    return _chosen[name]


def _imported(word: str) -> Any:
    """The class module:Class, from the path or the folder that the user is in."""
    module, _, name = word.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"there is no codec {word} ({error}); write module:Class, or the name of an installed one") from error
    finally:
        sys.path.pop(0)


def _make(name: str, kind: Any) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise ValueError(f"the codec {name} cannot be made ({error}); it is a class without arguments") from error


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    if not sides or any(type(side) is not int or side < 1 for side in sides):
        raise ValueError(f"the codec {name} has the shape {shape!r}; it is one or more whole numbers above 0")
    return sides
