"""Structured junk for every reader: good files with some of what is in them made odd, so that most of it still looks right.

    python tests/junk.py SECONDS SEED [READER]

A reader may take what it gets or refuse it by a ValueError. Anything else, more than SLOW seconds for one file, or more than
MEGABYTES in all, is told with the reader, the seed and the traceback, and ends the program with exit code 1. READER after the
seed takes only those that have it in their name.
"""

import gzip
import json
import lzma
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig, load
from glauber.cli.infill_files import _read_lines, infill_tokens
from glauber.cli.info_facts import data_facts, is_data, model_facts, run_facts
from glauber.cli.info_words import data_words, model_words, run_words
from glauber.codec import CharCodec, PatchCodec, PixelCodec, TextCodec, TokenizerCodec, VQCodec
from glauber.codec.vq import CONFIG as VQ_CONFIG
from glauber.codec.vq import WEIGHTS as VQ_WEIGHTS
from glauber.data import Sources, open_shards, prepare
from glauber.data.images import Frame, frame_shape, open_image, read_image
from glauber.data.shards import HEADER, content_hash, sha256
from glauber.evaluate.features import read_images
from glauber.evaluate.fid import Statistics, packed, unpacked
from glauber.evaluate.infill import evaluate_fills, read_fills
from glauber.evaluate.text import read_texts
from glauber.evaluate.tokens import read_rows
from glauber.runs import digest
from glauber.tasks.template import read_template
from glauber.train import recipe
from glauber.train.data import shards_data
from glauber.train.folder import read_config
from glauber.train.overrides import apply_settings, read_settings
from glauber.train.run import run
from glauber.train.vq import VQSettings, VQTrainer

SLOW, MEGABYTES = 10, 1000
TEXT = "it was the best of times, it was the worst of times\n"
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 256, 2**31, 2**62, -(2**63), 2**70, 10**400, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), "", "a", "\0", "\ud800", "../../etc/passwd", "x" * 3000, "你好", "1", "true"),
    *([], [[]], {}, {"": None}, [0], [1, 2], [-1] * 3, ["a"], [0.5] * 1000, list(range(5000)), {"kind": "char"}),
]


class TooSlowError(BaseException):
    """A reader took more than SLOW seconds; nothing that it catches."""


def odd_value(value: Any, draw: random.Random) -> Any:
    """The same with one of its parts, at any depth, replaced, removed, repeated, renamed, exchanged, or buried."""
    if isinstance(value, dict | list) and value and draw.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, other = draw.choice(keys), draw.choice(keys)
        changed = value.copy()
        how = draw.random()
        if how < 0.8:
            changed[key] = odd_value(value[key], draw)
        elif how < 0.87:
            del changed[key]
        elif how < 0.94:
            changed[key], changed[other] = changed[other], changed[key]
        elif isinstance(changed, dict):
            changed[draw.choice(["", "kind", "x" * 100, f"{key}2"])] = changed[key]
        else:
            changed[key:key] = changed[key : key + 3] * draw.choice([1, 1, 1000])
        return changed
    how = draw.random()
    if how < 0.25 and type(value) in (int, float):
        return draw.choice([value + 1, value - 1, -value, value * 2, value * 10**6, value // 3, str(value), [value], value * 0])
    if how < 0.35:
        deep = value
        for _ in range(draw.choice([1, 3, 200])):
            deep = draw.choice([[deep], {"a": deep}])
        return deep
    return draw.choice(VALUES)


def odd_json(content: bytes, draw: random.Random) -> bytes:
    value = json.loads(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        value = odd_value(value, draw)
    return json.dumps(value).encode(errors="surrogatepass")


def odd_bytes(content: bytes, draw: random.Random) -> bytes:
    """Some flipped, cut off, left out, put in, repeated, or from elsewhere in the file."""
    made = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at, size = draw.randrange(len(made) + 1), draw.choice([1, 2, 4, 8, 64])
        match draw.randrange(6):
            case 0:
                made[at : at + size] = draw.randbytes(size)
            case 1:
                del made[at:]
            case 2:
                del made[at : at + size]
            case 3:
                made[at:at] = draw.choice([b"\0", b"\xff", b"[[", b"{", b'"', b"\n", b"\f", b"\x80", b"9"]) * size
            case 4:
                made[at:at] = made[at : at + size] * draw.choice([1, 100])
            case _:
                elsewhere = draw.randrange(len(made) + 1)
                made[at : at + size] = made[elsewhere : elsewhere + size]
    return bytes(made)


def odd_lines(content: bytes, draw: random.Random) -> bytes:
    """One of the lines is odd JSON."""
    lines = content.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    lines[at] = odd_json(lines[at], draw) + draw.choice([b"\n", b"\n", b"\r\n", b"", b"\n\n", b"\xef\xbb\xbf"])
    return b"".join(lines)


def odd_tensors(content: bytes, draw: random.Random) -> bytes:
    """Another header before the same numbers."""
    size = int.from_bytes(content[:8], "little")
    header = odd_json(content[8 : 8 + size], draw)
    told = len(header) if draw.random() < 0.9 else draw.choice([0, 1, len(header) * 2, 2**63])
    return told.to_bytes(8, "little") + header + content[8 + size :]


def odd_numbers(content: bytes, draw: random.Random) -> bytes:
    """The numbers after the header are others: large ones, infinite ones, none."""
    size = 8 + int.from_bytes(content[:8], "little")
    numbers = bytearray(content[size:])
    for _ in range(draw.choice([1, 20])):
        at = 4 * draw.randrange(len(numbers) // 4)
        numbers[at : at + 4] = struct.pack("<f", draw.choice([float("nan"), float("inf"), -1.0, 0.0, 1e38, 7.5]))
    return content[:size] + numbers


def odd_array(content: bytes, draw: random.Random) -> bytes:
    """Another header of an .npy before the same numbers."""
    size = int.from_bytes(content[8:10], "little")
    kind = draw.choice(["<i8", "<i4", ">u2", "|u1", "|b1", "<f4", "<f2", "<c8", "|O", "|V8", "<U4", "<M8[s]", "i8,f4", "", "x"])
    sizes = [0, 1, -1, 2, 4, 5, 16, 2**31, 2**62, 10**30, 0.5, "True", "'a'"]
    sides = [str(draw.choice(sizes)) for _ in range(draw.randrange(5))]
    shape = draw.choice([f"({','.join(sides)}{',' * bool(sides)})", "(4, 16)", "(64,)", "[64]", "64", "None", "(" * 3000])
    order = draw.choice(["False", "False", "True", "None"])
    said = draw.choice(
        [
            f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode(),
            odd_bytes(content[10 : 10 + size], draw)[: 2**16 - 1],
        ]
    )
    return content[:8] + len(said).to_bytes(2, "little") + said + content[10 + size :]


def odd_png(content: bytes, draw: random.Random) -> bytes:
    """One of the chunks is odd, and has a checksum that fits."""
    chunks, at = [], 8
    while at < len(content):
        size = int.from_bytes(content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    k = draw.randrange(len(chunks))
    kind, data = chunks[k]
    kinds = [b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"eXIf", b"iCCP", b"zTXt", b"iTXt", b"gAMA", b"acTL", b"fcTL", b"fdAT"]
    match draw.randrange(5):
        case 0:
            chunks[k] = kind, odd_bytes(data, draw) if data else draw.randbytes(9)
        case 1:
            more = [data, b"", draw.randbytes(40), b"a\0\0" + zlib.compress(bytes(10**7))]
            chunks[k:k] = [(draw.choice(kinds), draw.choice(more))]
        case 2:
            del chunks[k]
        case 3:
            chunks[k] = draw.choice(kinds), data
        case _:
            sides = (draw.choice([0, 1, 8, 9, 2**16, 2**31 - 1, 2**32 - 1]) for _ in range(2))
            depth, colour, other = draw.choice([1, 8, 16, 3]), draw.choice([0, 2, 3, 4, 6, 7]), draw.choice([0, 0, 1])
            chunks[0] = b"IHDR", struct.pack(">IIBBBBB", *sides, depth, colour, 0, 0, other)
    parts = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks)
    return content[:8] + b"".join(parts)


ODD: dict[str, list[Callable[[bytes, random.Random], bytes]]] = {
    ".json": [odd_json, odd_json, odd_json, odd_bytes],
    ".jsonl": [odd_lines, odd_lines, odd_bytes],
    ".safetensors": [odd_tensors, odd_numbers, odd_bytes],
    ".npy": [odd_array, odd_array, odd_bytes],
    ".png": [odd_png, odd_png, odd_bytes],
}


class Reader(NamedTuple):
    """The files of which one is spoilt at a time, and what reads them."""

    files: list[Path]
    read: Callable[[], object]
    mend: Callable[[], object] = lambda: None
    """What someone would do who wants the junk to be believed: write down the hash that it has."""


def model(codec: Any = None, vocab: int = 4, length: int = 16, **shape: Any) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(vocab, length, width=8, layers=1, heads=2, **shape))
    about = {"recipe": "tiny", "steps": 3, "classes": ["a", "b"]}
    process = Process(Schedule.round_robin(length, 2 * length, "linear"), NoiseLaw.uniform(vocab))
    return Model(network, process, codec, about=about)


def use(folder: Path) -> None:
    """Load a model, tell of it, and draw a sample where that is quick."""
    model_words(model_facts(str(folder)))
    loaded = load(folder)
    if loaded.process.schedule.steps <= 500:
        loaded.sample(1, seed=0)


def readers(folder: Path) -> dict[str, Reader]:
    """Good files of every kind, and who reads them."""
    made: dict[str, Reader] = {}
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), dtype=np.uint8)
    bpe = TokenizerCodec.train([TEXT], 280)
    vq = VQTrainer(VQSettings(codes=4, factor=2, width=8, dim=2, steps=1, batch=2), (8, 8, 3)).codec()
    codecs: dict[str, tuple[Any, int, dict[str, Any]]] = {
        "tokens": (None, 16, {"classes": 2, "learned_positions": True}),
        "characters": (CharCodec("abc"), 16, {"causal": True}),
        "word pieces": (bpe, 16, {}),
        "pixels": (PixelCodec((4, 4), 4), 16, {"grid": (4, 4)}),
        "patches": (PatchCodec.fit(pixels, 2, 4), 16, {"grid": (4, 4)}),
        "codes": (vq, 16, {"grid": (4, 4)}),
    }
    for name, (codec, length, shape) in codecs.items():
        at = model(codec, 4 if codec is None else codec.vocab, length, **shape).save(folder / f"model of {name}")
        made[at.name] = Reader([at / "config.json", at / "model.safetensors"], lambda at=at: use(at))

    text = folder / "a.txt"
    text.write_text((TEXT * 20 + "\f") * 3)
    (folder / "a.jsonl").write_text((json.dumps({"text": TEXT, "n": [1, {"a": None}]}) + "\n") * 5)
    (folder / "gaps.jsonl").write_text((json.dumps({"text": "a[[2]]b\\[[c", "id": 1}) + "\n") * 5)
    for end, opener in ((".gz", gzip.compress), (".xz", lzma.compress)):
        (folder / f"a.txt{end}").write_bytes(opener(text.read_bytes()))
    for name in ("a.txt", "a.jsonl", "a.txt.gz", "a.txt.xz"):
        path = folder / name
        made[path.name] = Reader([path], lambda path=path: [list(Sources([path]).pieces()), read_texts(path)])
    made["gaps.jsonl"] = Reader(
        [folder / "gaps.jsonl"],
        lambda: [read_template(record["text"], CharCodec("abc["), 16) for record in _read_lines(folder / "gaps.jsonl")],
    )

    (folder / "tokenizer.json").write_text(json.dumps(bpe.to_dict()["tokenizer"]))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
    made["tokenizer"] = Reader([folder / "tokenizer.json", folder / "tokenizer_config.json"], lambda: told(folder))

    np.save(folder / "rows.npy", np.arange(64).reshape(4, 16) % 4)
    np.save(folder / "mask.npy", np.arange(16) < 3)
    own = model()
    made["rows.npy"] = Reader(
        [folder / "rows.npy", folder / "mask.npy"],
        lambda: [
            list(Sources([folder / "rows.npy"], vocab=4).pieces()),
            read_rows(folder / "rows.npy"),
            data_words(data_facts(str(folder / "rows.npy"))),
            infill_tokens(own, folder / "rows.npy", folder / "mask.npy", None, 1, 0),
        ],
    )

    for kind in ("png", "jpg", "gif", "bmp", "webp", "tiff", "ppm"):
        picture = folder / f"a.{kind}"
        Image.fromarray(pixels[0]).save(picture)
        made[picture.name] = Reader([picture], lambda picture=picture: images(picture))

    for name, sources, words in (
        ("texts", [text], ("char", 8)),
        ("word pieces", [text], ("bpe:280", 8)),
        ("patches", [pictures(folder, pixels)], ("patches:4:2", None)),
    ):
        data = folder / f"data of {name}"
        prepare(sources, data, *words, valid=0.3, classes=name == "patches", progress=False)
        files = [data / HEADER, *sorted(data.glob("*.safetensors")), *sorted(data.glob("*.npy"))]
        made[data.name] = Reader(files, lambda data=data: shards(data), lambda data=data: sign(data))

    out = folder / "run"
    settings = {"train.steps": 2, "train.batch": 2, "train.samples": 1, "network.width": 8, "train.evaluate_every": 1}
    run(apply_settings(recipe("tiny"), settings), shards_data(folder / "data of texts"), out, say=lambda _: None)
    shutil.rmtree(out / "model")
    kept, newest = out / "checkpoints", out / "checkpoints" / "step-00000002"
    files = [out / "config.json", out / "log.jsonl", kept / "frame.json", kept / "frame.safetensors"]
    made["run"] = Reader(
        [*files, newest / "state.json", newest / "average.safetensors"],
        lambda: [read_config(out), run_words(run_facts(str(out))), load(out)],
        lambda: sign_checkpoint(newest),
    )

    (folder / "settings.toml").write_text("[train]\nsteps = 3\nbetas = [0.9, 0.95]\n[network]\nwidth = 64\n")
    made["settings.toml"] = Reader(
        [folder / "settings.toml"], lambda: apply_settings(recipe("tiny"), read_settings(folder / "settings.toml"))
    )

    for name, more in {"samples.json": {"texts": [TEXT] * 3}, "rows.json": {}}.items():
        (folder / name).write_text(json.dumps({"tokens": [[1, 2]] * 3, "seconds": 0.1} | more))
        made[name] = Reader([folder / name], lambda name=name: rows_or_texts(folder / name))

    codec = folder / "codec"
    codec.mkdir()
    (codec / VQ_CONFIG).write_text(json.dumps({"_class_name": "VQModel", **vq.network}))
    save_file(vq.weights, codec / VQ_WEIGHTS)
    made["codec"] = Reader([codec / VQ_CONFIG, codec / VQ_WEIGHTS], lambda: VQCodec.load(codec, 8).encode(pixels[:1]))

    fill = {"prefix": "a", "fill": "b c", "truth": "b d", "suffix": "e", "fill_tokens": [1, 2], "truth_tokens": [1, 3]}
    (folder / "fills.jsonl").write_text((json.dumps(fill) + "\n") * 3)
    made["fills.jsonl"] = Reader([folder / "fills.jsonl"], lambda: evaluate_fills(read_fills(folder / "fills.jsonl"), []))
    np.save(folder / "images.npy", pixels)
    np.savez(folder / "images.npz", images=pixels)
    for name in ("images.npy", "images.npz"):
        made[name] = Reader([folder / name], lambda name=name: list(read_images(folder / name).chunks()))

    statistics = Statistics(np.arange(4.0), np.eye(4), 5, "a", "b", (8, 8, 3))
    (folder / "features.safetensors").write_bytes(packed(statistics))
    made["features"] = Reader([folder / "features.safetensors"], lambda: unpacked(folder / "features.safetensors"))
    return made


def pictures(folder: Path, pixels: np.ndarray) -> Path:
    for k, image in enumerate(pixels):
        path = folder / "pictures" / "ab"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder / "pictures"


def told(folder: Path) -> None:
    codec: TextCodec = TokenizerCodec.from_file(folder / "tokenizer.json")
    codec.decode(codec.encode(TEXT))


def rows_or_texts(path: Path) -> None:
    if read_rows(path) is None:
        read_texts(path)


def images(path: Path) -> None:
    open_image(path)
    for frame in (Frame(), Frame(4), Frame(grey=True)):
        read_image(path, frame, frame_shape(path, frame))
    read_images(path).read([0])


def shards(folder: Path) -> None:
    if is_data(str(folder)):
        data_words(data_facts(str(folder)))
    found = open_shards(folder)
    found.verify()
    for split in ("train", "valid"):
        rows = found.rows(split)
        rows[: min(3, len(rows))]
    if found.codec is not None and not found.classes:
        read_texts(folder)


def sign(folder: Path) -> None:
    """Write the hashes of what is there now into the header."""
    header = json.loads((folder / HEADER).read_bytes())
    for entry in (header["counts"], (header["codec"] or {}).get("tensors")):
        if entry is not None:
            entry["sha256"] = sha256(folder / entry["file"])
    (folder / HEADER).write_text(json.dumps(header | {"hash": content_hash(header)}))


def sign_checkpoint(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_bytes())
    for name in state["sha256"]:
        state["sha256"][name] = digest(folder / f"{name}.safetensors")
    (folder / "state.json").write_text(json.dumps(state))


def spoil(path: Path, draw: random.Random) -> None:
    content = path.read_bytes()
    odd = draw.choice(ODD.get(path.suffix, [odd_bytes]))
    path.write_bytes(odd(content, draw) or b"")


def stop(number: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {SLOW} s")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def throw(name: str, reader: Reader, seed: int) -> str:
    """What became of it: "taken", "refused", or what went wrong."""
    draw = random.Random(f"{name} {seed}")
    kept = {path: path.read_bytes() for path in reader.files}
    try:
        spoil(draw.choice(reader.files), draw)
        if draw.random() < 0.7:
            with suppress(Exception):
                reader.mend()
        signal.alarm(SLOW)
        reader.read()
        return "taken"
    except ValueError as error:
        if type(error) is ValueError and len(str(error).split()) > 2:  # and no kind of its own, whose words are not for users
            return "refused"
        return f"{name} {seed}\n{traceback.format_exc(limit=-4)}"
    except BaseException:  # a panic of a library in Rust is one, too
        return f"{name} {seed}\n{traceback.format_exc(limit=-4)}"
    finally:
        signal.alarm(0)
        for path, content in kept.items():
            path.write_bytes(content)


def main(seconds: float, seed: int, only: str = "") -> int:
    """Throw junk at each reader in turn, once at least, and tell; 1 if one of them gave way."""
    signal.signal(signal.SIGALRM, stop)
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        known = {name: reader for name, reader in readers(Path(folder)).items() if only in name}
        for reader in known.values():
            reader.read()  # what is good is taken
        began, high, last = time.monotonic(), peak(), False
        while not last:
            last = time.monotonic() - began >= seconds
            for name, reader in known.items():
                found = throw(name, reader, seed)
                counts[found if found in ("taken", "refused") else "wrong"] += 1
                if found not in ("taken", "refused"):
                    wrong.setdefault(found.splitlines()[-1], found)
                if peak() > max(high, MEGABYTES):
                    high = peak()
                    wrong[f"{name} {seed}"] = f"{name} {seed}: {high:.0f} MB"
            seed += 1
    print(f"{counts['taken']} were taken, {counts['refused']} refused, {counts['wrong']} went wrong; {peak():.0f} MB")
    print(*islice(wrong.values(), 30), sep="\n\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
