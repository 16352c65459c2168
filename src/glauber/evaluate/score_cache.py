"""The scores of texts by a judge, kept in a file, so that an evaluation goes on where it was interrupted."""

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glauber.runtime.files import parse_json, whole_lines


class TextScore(NamedTuple):
    """How likely a text is to a judge."""

    nll: float  # nats, over all tokens but the first
    tokens: int  # L
    characters: int  # those after the first token
    feature: np.ndarray | None = None  # the last hidden state at its last token, as published figures of MAUVE have it


class ScoreCache:
    """Scores by `score_key`, in a file of lines; without a path, in memory alone."""

    def __init__(self, path: Path | None):
        self.path, self.known = path, dict[str, TextScore]()
        if path is not None and path.exists():
            whole = whole_lines(path)
            try:
                self.known = dict(map(_read_line, whole.splitlines()))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{path} is not what an interrupted evaluation leaves; remove it, or name another --out"
                ) from error
            os.truncate(path, len(whole))

    def has(self, key: str, feature: bool) -> bool:
        """Whether it has the score, and the feature if that is wanted."""
        return key in self.known and not (feature and self.known[key].feature is None)

    def add(self, found: dict[str, TextScore]) -> None:
        """Keep them."""
        self.known |= found
        if self.path is not None:
            with self.path.open("ab") as file:
                for key, (nll, tokens, characters, feature) in found.items():
                    packed = None if feature is None else base64.b64encode(feature.astype("<f4").tobytes()).decode()
                    file.write(json.dumps([key, nll, tokens, characters, packed]).encode() + b"\n")


def _read_line(line: bytes) -> tuple[str, TextScore]:
    key, nll, tokens, characters, feature = parse_json(line)
    made = None if feature is None else np.frombuffer(base64.b64decode(feature), "<f4")
    return str(key), TextScore(float(nll), int(tokens), int(characters), made)


def score_key(identity: str, text: str) -> str:
    """Of a text and a judge."""
    return hashlib.sha256(f"{identity}\0{text}".encode(errors="surrogatepass")).hexdigest()
