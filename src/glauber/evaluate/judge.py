"""Text judged by a causal language model: -log P of each text, and its perplexities.

A text of L tokens x_1..x_L has L - 1 terms, since nothing comes before the first:

    NLL(x) = -Σ_{l≥2} log P(x_l | x_<l)
"""

import base64
import hashlib
import importlib.util
import io
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glauber.runtime.files import parse_json, whole_lines
from glauber.runtime.hub import hub_answers
from glauber.runtime.progress import progress_bar

BATCH = {"cpu": 2**9, "cuda": 2**14}
"""Tokens that go through the judge at once, padding included; a CPU is no faster with more."""
GGUF = b"GGUF"


class TextScore(NamedTuple):
    """What a judge says of a text."""

    nll: float  # nats, over all tokens but the first
    tokens: int  # L
    characters: int  # those after the first token
    feature: np.ndarray | None = None  # the last hidden state at its last token, as published figures of MAUVE have it


class Judge:
    """A causal language model of transformers, in float32.

    Args:
        name: a folder, a .gguf file, or a hub id.
        progress: say in a terminal that it is being loaded, which can take half a minute.
    """

    def __init__(self, name: str, progress: bool = False):
        from tqdm import tqdm

        self.name, self.identity = Path(name).name if Path(name).exists() else name, _identity(name)
        with tqdm(bar_format=f"loading the judge {self.name}", disable=None if progress else True, leave=False):
            self.model, self.tokenizer = _load(name)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self.batch = BATCH[self.model.device.type]
        self.context = getattr(self.model.config, "max_position_embeddings", None) or 2**62
        opening = self.tokenizer("a").input_ids
        has_start = len(opening) > 1 and opening[0] == self.tokenizer.bos_token_id
        self.start = opening[:1] if has_start else []  # what the judge wants before a text; it is no token of the text

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The judge's tokens of each text, without any that it would add."""
        return [self._encode(text)[0] for text in texts]

    def scores(
        self, texts: Sequence[str], features: bool = False, cache: "ScoreCache | None" = None, progress: bool = False
    ) -> list[TextScore]:
        """One for each text. What the ledger knows is taken from there; what is new is added batch by batch."""
        cache = cache or ScoreCache(None)
        encoded = [self._encode(text) for text in texts]
        for k, (ids, _) in enumerate(encoded):
            if len(ids) < 2:
                raise ValueError(f"text {k + 1} has fewer than two tokens, which cannot be judged; leave it out: {texts[k]!r}")
        keys = [_key(self.identity, text) for text in texts]
        # longest first: a lack of memory shows at once. The batches are the same whatever is known, and so are the figures
        order = sorted(range(len(texts)), key=lambda k: (-len(encoded[k][0]), keys[k]))
        done: list[TextScore] = []
        total, style = sum(len(ids) for ids, _ in encoded), {"unit_scale": True, "leave": False}
        with progress_bar(progress, total, f"judge {self.name}", " tokens", **style) as bar:
            for batch in _batches([(k, min(len(encoded[k][0]), self.context)) for k in order], self.batch):
                if not all(cache.has(keys[k], features) for k in batch):
                    found = self._judge([encoded[k] for k in batch], features)
                    cache.add({keys[k]: score for k, score in zip(batch, found, strict=True)})
                bar.update(sum(len(encoded[k][0]) for k in batch))
                done += [cache.known[keys[k]] for k in batch]
                bar.set_postfix_str(f"perplexity {perplexities(done)['perplexity']:.1f} so far")
        return [cache.known[key] for key in keys]

    def _encode(self, text: str) -> tuple[list[int], int]:
        """The tokens, and how many characters come after the first of them."""
        made = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return made.input_ids, len(text) - made.offset_mapping[0][1] if made.input_ids else 0

    @torch.no_grad()
    def _judge(self, encoded: list[tuple[list[int], int]], features: bool) -> list[TextScore]:
        """Texts of a batch; a text longer than the judge's context is read in windows that overlap by half."""
        nll, states = [0.0] * len(encoded), [np.zeros(0)] * len(encoded)
        cut = [
            (k, window) for k, (ids, _) in enumerate(encoded) for window in windows(len(ids), self.context - len(self.start))
        ]
        size = max(1, self.batch // max(end - begin for _, (begin, end, _) in cut))
        for some in (cut[at : at + size] for at in range(0, len(cut), size)):
            rows = [torch.tensor(self.start + encoded[k][0][begin:end]) for k, (begin, end, _) in some]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.model.device)
            sizes = torch.tensor([len(row) for row in rows])
            mask = (torch.arange(ids.shape[1]) < sizes[:, None]).long().to(ids.device)
            out = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=features, use_cache=False)
            for row, (k, (begin, _, first)) in enumerate(some):
                skip = len(self.start) + first - begin  # where the window's news begin
                nll[k] += _nll(out.logits[row, : len(rows[row])], ids[row, : len(rows[row])], skip)
                if features:
                    states[k] = out.hidden_states[-1][row, len(rows[row]) - 1].cpu().numpy()
        return [
            TextScore(nll[k], len(ids), characters, states[k] if features else None)
            for k, (ids, characters) in enumerate(encoded)
        ]


def _nll(logits: Tensor, ids: Tensor, skip: int) -> float:
    """-Σ log P(x_l | x_<l) for l ≥ skip, counted from 0."""
    return F.cross_entropy(logits[skip - 1 : -1].float(), ids[skip:], reduction="none").double().sum().item()


def perplexities(scores: Sequence[TextScore]) -> dict[str, float]:
    """The paper's, mean over texts of exp(NLL / L); the usual, exp(Σ NLL / Σ (L - 1)); and bits per character."""
    total = math.fsum(score.nll for score in scores)
    return {
        "perplexity_paper": math.fsum(math.exp(score.nll / score.tokens) for score in scores) / len(scores),
        "perplexity": math.exp(total / sum(score.tokens - 1 for score in scores)),
        "bits_per_character": total / math.log(2) / max(1, sum(score.characters for score in scores)),
    }


def windows(length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Windows begin..end of at most `context` tokens, and the first token of each that no earlier window has judged."""
    begin, first = 0, 1
    while True:
        end = min(begin + context, length)
        yield begin, end, first
        if end == length:
            return
        begin, first = begin + max(1, context // 2), end


class Encoder:
    """A sentence encoder of transformers: the mean of its last hidden states, over the tokens that it can read."""

    def __init__(self, name: str):
        self.name = Path(name).name if Path(name).exists() else name
        self.model, self.tokenizer = _load(name, causal=False)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    @torch.no_grad()
    def features(self, texts: Sequence[str], progress: bool = False) -> np.ndarray:
        """(N, D), one text at a time."""
        most = min(self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", 2**62))
        rows = []
        with progress_bar(progress, len(texts), f"features {self.name}", "text", leave=False) as bar:
            for text in texts:
                ids = self.tokenizer(text, truncation=True, max_length=most, return_tensors="pt").to(self.model.device)
                rows.append(self.model(**ids).last_hidden_state[0].double().mean(0).cpu().numpy())
                bar.update()
        return np.stack(rows)


class ScoreCache:
    """Verdicts that are kept in a file of lines, so that judging goes on where it was killed. Without a path, in memory."""

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
        """Whether it knows the verdict, and the feature if that is wanted."""
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


def _key(identity: str, text: str) -> str:
    return hashlib.sha256(f"{identity}\0{text}".encode(errors="surrogatepass")).hexdigest()


def _identity(name: str) -> str:
    """The name, and what changes when the files do."""
    path = Path(name)
    files = sorted(path.glob("*")) if path.is_dir() else [path] if path.is_file() else []
    return json.dumps([name, [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]])


def _batches(sized: Sequence[tuple[int, int]], most: int) -> Iterator[list[int]]:
    """Numbers of texts, given with their lengths, the longest first: about `most` tokens at a time."""
    batch: list[int] = []
    width = 0
    for k, length in sized:
        if batch and (len(batch) + 1) * width > most:
            yield batch
            batch = []
        if not batch:
            width = length
        batch.append(k)
    if batch:
        yield batch


def _load(name: str, causal: bool = True) -> tuple[Any, Any]:
    """Model and tokenizer; whatever is wrong with them is one sentence."""
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError("a judge needs transformers: pip install 'glauber[eval]'") from error
    where, options = find_model(name)
    what = "a causal language model" if causal else "a model"
    options |= {} if Path(where).exists() or hub_answers() else {"local_files_only": True}
    with _quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
            options |= {"dtype": torch.float32, "output_loading_info": True}
            options |= {} if "gguf_file" in options else {"use_safetensors": True}  # a pickle could run any code
            model, said = kind.from_pretrained(where, **options)
        except Exception as error:  # transformers has many kinds of failure, all of them the same to the user
            first = re.split(r"(?<=[.!?])\s", " ".join(str(error).split()))[0].rstrip(".")[:200]
            raise ValueError(f"{name} cannot be read as {what} with its tokenizer and weights ({first})") from error
    lost = sorted(said["missing_keys"])
    if causal and lost:
        raise ValueError(f"{name} lacks {len(lost)} of the judge's tensors, such as {lost[0]}; get its weights again")
    made = getattr(model.config, "architectures", None) or []
    if causal and made and not any(re.search(r"CausalLM|LMHead|ForConditionalGeneration", one) for one in made):
        raise ValueError(f"{name} is a {made[0]}, which is no causal language model and cannot judge; name another judge")
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{name} has no tokenizer.json, which a judge needs; save its tokenizer as a fast one")
    return model, tokenizer


def find_model(name: str) -> tuple[str, dict[str, Any]]:
    """What transformers is to be asked for: a folder or hub id, and the .gguf in it. What can be no model is refused."""
    path = Path(name)
    if path.suffix == ".gguf" or path.is_file():
        if not path.is_file():
            raise ValueError(f"there is no file {name}; give the judge's folder, .gguf file or hub id")
        with path.open("rb") as file:
            if file.read(4) != GGUF:
                raise ValueError(f"{name} is not a GGUF file; give the judge's folder, .gguf file or hub id")
        if importlib.util.find_spec("gguf") is None or importlib.util.find_spec("accelerate") is None:
            raise ImportError("a judge in a .gguf file needs gguf and accelerate: pip install 'glauber[eval]'")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{name} is no model's folder: it has no config.json")
    if path.is_dir() and any(path.glob("*.bin")) and not any(path.glob("*.safetensors")):
        raise ValueError(f"{name} has its weights in a .bin, a pickle that could run any code; save them as safetensors")
    if not path.exists() and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
        raise ValueError(f"there is no folder {name}; give the judge's folder, .gguf file or hub id")
    return name, {}


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without what transformers would print while it loads."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):  # the reader of .gguf has a bar of its own
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
