"""Text ⇄ tokens: characters, bytes, or any tokenizer of the `tokenizers` library."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from torch import Tensor

from glauber.runtime.files import JSON_BYTES, read_bytes, read_json
from glauber.runtime.hub import download

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = Sequence[int] | np.ndarray | Tensor
END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[EOS]", "<|im_end|>", "[SEP]")
PROBE = "It was the best of times,\n\n  it was the worst — “of” times; caf\u00e9, \u4f60\u597d \U0001f600\t(1859)."
CODEPOINTS = 0x110000
LARGEST_BPE = 2**20
LARGEST_VOCAB = 2**24
"""Of a tokenizer: there are tables of as many numbers."""


class TextCodec(Protocol):
    """A text of any length ⇄ a list of tokens 0..V-1, of which `end` stands for the end of a text."""

    kind: ClassVar[str]
    vocab: int  # V, the end-of-text token among them
    end: int
    lossless: bool  # whether decode(encode(x)) gave back x on the texts it was tried on

    def encode(self, text: str) -> list[int]: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
        """As `encode_batch`, each as an array of unsigned integers."""
        ...

    def decode(self, ids: Ids) -> str:
        """The text of the tokens; the end-of-text token stands for nothing."""
        ...

    def to_dict(self) -> dict[str, Any]: ...

    def tensors(self) -> dict[str, Tensor]: ...


class _Common(ABC):
    """What the codecs share; `arrays` and `_decode` are theirs."""

    vocab: int
    end: int

    @abstractmethod
    def arrays(self, texts: Sequence[str]) -> list[np.ndarray]: ...

    @abstractmethod
    def _decode(self, ids: list[int]) -> str: ...

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids.tolist() for ids in self.arrays(texts)]

    def decode(self, ids: Ids) -> str:
        tokens = np.asarray(ids)
        if tokens.ndim != 1 or (tokens.size and tokens.dtype.kind not in "iu"):
            raise ValueError(f"decode takes one row of whole numbers, not {tokens.dtype} of shape {tokens.shape}")
        if tokens.size and (tokens.min() < 0 or tokens.max() >= self.vocab):
            raise ValueError(f"tokens must lie in 0..{self.vocab - 1}; these span {tokens.min()}..{tokens.max()}")
        return self._decode(tokens[tokens != self.end].tolist())

    def tensors(self) -> dict[str, Tensor]:
        return {}


class CharCodec(_Common):
    """One token per character: 0..n-1 for the n characters of the alphabet in its order, n for the end of a text."""

    kind: ClassVar[str] = "char"
    lossless = True

    def __init__(self, alphabet: str):
        if not isinstance(alphabet, str) or not alphabet or len(set(alphabet)) < len(alphabet):
            raise ValueError(f"an alphabet is a string of different characters, not {alphabet!r}")
        self.alphabet, self.end, self.vocab = alphabet, len(alphabet), len(alphabet) + 1
        self._table = np.full(CODEPOINTS, self.end, dtype=np.uint32)  # code point → token; `end` where there is none
        self._table[_codepoints(alphabet)] = np.arange(self.end, dtype=np.uint32)

    @classmethod
    def fit(cls, texts: Iterable[str]) -> "CharCodec":
        """The characters of the texts, by code point."""
        seen = np.zeros(CODEPOINTS, dtype=bool)
        for text in texts:
            seen[_codepoints(text)] = True
        if not seen.any():
            raise ValueError("there are no characters to make an alphabet of; give texts that are not empty")
        return cls("".join(map(chr, np.flatnonzero(seen))))

    def arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
        tokens = self._table[_codepoints("".join(texts))]
        if (tokens == self.end).any():
            known = set(self.alphabet)
            character = next(c for text in texts for c in text if c not in known)
            raise ValueError(
                f"the character {character!r} (U+{ord(character):04X}) is not among the {self.end} that this codec knows; "
                "leave it out, or prepare the data with the tokenizer 'bytes'"
            )
        return np.split(tokens, np.cumsum([len(text) for text in texts])[:-1]) if texts else []

    def _decode(self, ids: list[int]) -> str:
        return "".join(self.alphabet[i] for i in ids)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "alphabet": self.alphabet}


class ByteCodec(_Common):
    """One token per byte of the UTF-8 text, and 256 for the end of a text."""

    kind: ClassVar[str] = "bytes"
    lossless = True
    vocab, end = 257, 256

    def arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.frombuffer(_utf8(text), dtype=np.uint8) for text in texts]

    def _decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")  # a sampled row need not be UTF-8

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}


class TokenizerCodec(_Common):
    """The tokens of a tokenizer of the `tokenizers` library, without those that it would add around a text.

    Special tokens spelt out in a text are read as plain text, so that `end` only ever means the end.

    Args:
        tokenizer: the library's object, or its JSON.
        end: its end-of-text token; looked for among the usual names if None, and added where there is none.
        lossless: what a check has found before; tried on a line of many scripts if None.
    """

    kind: ClassVar[str] = "tokenizer"

    def __init__(self, tokenizer: "Tokenizer | dict[str, Any]", end: int | None = None, lossless: bool | None = None):
        made = _from_json(json.dumps(tokenizer) if isinstance(tokenizer, dict) else tokenizer.to_str())
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = True
        self.tokenizer, self.end = made, _find_end(made) if end is None else end
        self.vocab = max(made.get_vocab(with_added_tokens=True).values()) + 1
        if self.vocab > LARGEST_VOCAB:
            raise ValueError(f"this tokenizer has a token {self.vocab - 1:,}; the largest that can be is {LARGEST_VOCAB - 1:,}")
        if not 0 <= self.end < self.vocab:
            raise ValueError(f"the end-of-text token {self.end} is not among the tokenizer's 0..{self.vocab - 1}")
        with _failures_told():  # some give up only at their first text
            tried = round_trips(self, [PROBE])
        self.lossless = tried if lossless is None else lossless

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int) -> "TokenizerCodec":
        """A byte-level BPE of at most `vocab` tokens, 0 for the end of a text; the same texts give the same one."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        if vocab < 257:
            raise ValueError(f"a BPE needs at least 257 tokens, one per byte and the end of a text, not {vocab}")
        if vocab > LARGEST_BPE:
            raise ValueError(f"a BPE has at most {LARGEST_BPE:,} tokens, not {vocab:,}; choose fewer, such as bpe:8192")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer, end=0)

    @classmethod
    def from_file(cls, path: str | Path) -> "TokenizerCodec":
        """Any tokenizer.json; its end of text is the eos_token of a tokenizer_config.json beside it, if there is one."""
        try:
            tokenizer = _from_json(read_bytes(path, JSON_BYTES).decode())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is missing, or not a tokenizer.json of the tokenizers library") from error
        return cls(tokenizer, _configured_end(Path(path).with_name("tokenizer_config.json"), tokenizer))

    @classmethod
    def from_hub(cls, name: str) -> "TokenizerCodec":
        """The tokenizer.json of a model on the hub."""
        try:
            return cls(_from_json(read_bytes(download(name, "tokenizer.json"), JSON_BYTES).decode()))
        except Exception as error:  # the hub client has many kinds of failure, all of them the same to the user
            raise ValueError(f"the hub did not give a tokenizer.json for {name!r}; check the name and the network") from error

    def arrays(self, texts: Sequence[str]) -> list[np.ndarray]:
        try:
            encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:
            for text in texts:
                _utf8(text)  # says which of them is no Unicode text
            raise
        found = [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]
        return [self._apart(text) if (ids == self.end).any() else ids for ids, text in zip(found, texts, strict=True)]

    def _apart(self, text: str) -> np.ndarray:
        """A text that spells out the end-of-text token, cut within each of them so that they are plain text."""
        name = self.tokenizer.id_to_token(self.end) or ""
        parts = re.split(f"(?<={re.escape(name[:1])})(?={re.escape(name[1:])})", text) if len(name) > 1 else [text]
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(parts, add_special_tokens=False)]
        return np.array([i for part in ids for i in part if i != self.end], dtype=np.uint32)

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def to_dict(self) -> dict[str, Any]:
        tokenizer = json.loads(self.tokenizer.to_str())
        return {"kind": self.kind, "end": self.end, "lossless": self.lossless, "tokenizer": tokenizer}


def text_codec(spec: str | Path, sample: Iterable[str] | None = None) -> TextCodec:
    """The codec that a word names, tried on the first texts of the sample.

    Args:
        spec: "char", "bytes", "bpe:8192", the path of a tokenizer.json, or "hub:NAME".
        sample: texts; "char" takes its alphabet from all of them, "bpe:V" is trained on all of them.
    """
    texts: Iterator[str] = iter(() if sample is None else sample)
    first = list(islice(texts, 16))
    codec = _make(str(spec), chain(first, texts), sample is not None)
    if first and isinstance(codec, TokenizerCodec):
        codec.lossless = round_trips(codec, first)
    return codec


def text_codec_from_dict(config: dict[str, Any]) -> TextCodec:
    """The inverse of a text codec's `to_dict`."""
    options = {name: value for name, value in config.items() if name != "kind"}
    codecs = {made.kind: made for made in (CharCodec, ByteCodec, TokenizerCodec)}
    kind = config.get("kind")
    if kind not in codecs:
        raise ValueError(f"unknown text codec {kind!r}; this version of glauber knows {', '.join(map(repr, codecs))}")
    try:
        made: TextCodec = codecs[kind](**options)
    except TypeError as error:
        raise ValueError(
            f"these are not the settings of a text codec of kind {kind!r}: {', '.join(options) or 'none'}"
        ) from error
    return made


def round_trips(codec: TextCodec, texts: Sequence[str]) -> bool:
    """Whether decode(encode(x)) is x for each of the texts."""
    return all(codec.decode(ids) == text for ids, text in zip(codec.encode_batch(texts), texts, strict=True))


def _make(spec: str, texts: Iterable[str], has_texts: bool) -> TextCodec:
    name, _, detail = spec.partition(":")
    if spec == "bytes":
        return ByteCodec()
    if spec == "char" or (name == "bpe" and detail.isdecimal() and len(detail) < 30):
        if not has_texts:
            raise ValueError(f"the tokenizer {spec!r} is made from texts; give some as the sample")
        return CharCodec.fit(texts) if spec == "char" else TokenizerCodec.train(texts, int(detail))
    if name == "hub" and detail:
        return TokenizerCodec.from_hub(detail)
    if Path(spec).suffix == ".json":
        return _saved(Path(spec)) or TokenizerCodec.from_file(spec)
    raise ValueError(f"unknown tokenizer {spec!r}; choose char, bytes, bpe:8192, the path of a tokenizer.json, or hub:NAME")


def _saved(path: Path) -> TextCodec | None:
    """The codec whose `to_dict` is in the file, if it is one of ours."""
    try:
        config = read_json(path)
    except (OSError, ValueError):
        return None
    return text_codec_from_dict(config) if isinstance(config, dict) and "kind" in config else None


def _from_json(text: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    with _failures_told():
        return Tokenizer.from_str(text)


@contextmanager
def _failures_told() -> Iterator[None]:
    """What the library raises is a ValueError: bare Exceptions, and the panics of Rust, whose pages for stderr are dropped."""
    kept = None
    with suppress(OSError):  # there may be no stderr
        kept = os.dup(2)
    try:
        if kept is not None:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise ValueError("this is not the JSON of a tokenizer of the tokenizers library") from error
    finally:
        if kept is not None:
            os.dup2(kept, 2)
            os.close(kept)


def _find_end(tokenizer: "Tokenizer") -> int:
    """The end-of-text token under one of its usual names, or a new one."""
    found = [tokenizer.token_to_id(name) for name in END_NAMES]
    tokenizer.add_special_tokens([] if any(i is not None for i in found) else [END_NAMES[1]])
    return next(i for i in (*found, tokenizer.token_to_id(END_NAMES[1])) if i is not None)


def _configured_end(path: Path, tokenizer: "Tokenizer") -> int | None:
    try:
        name = read_json(path)["eos_token"]
        name = name.get("content") if isinstance(name, dict) else name
        return tokenizer.token_to_id(name) if isinstance(name, str) else None
    except (OSError, ValueError, KeyError, TypeError):  # half a character is a ValueError
        return None


def _codepoints(text: str) -> np.ndarray:
    """uint32 (len(text),)."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    except UnicodeEncodeError as error:
        raise _half(error) from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _half(error) from None


def _half(error: UnicodeEncodeError) -> ValueError:
    return ValueError(f"the text holds half a character, {error.object[error.start]!r}, which is no Unicode text; leave it out")
