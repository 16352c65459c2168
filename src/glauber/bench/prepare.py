"""How fast `prepare` is, against the `tokenizers` library that only encodes the same batches, in one run."""

import os
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from glauber.codec import TokenizerCodec
from glauber.data import Sources, prepare
from glauber.data.job import batches

SIZE, VOCAB, REPEATS = 100_000_000, 8192, 3


def bench_prepare(texts: Sequence[str | Path], quick: bool = False) -> dict[str, Any]:
    """Seconds of `prepare` and of the library's two ways to encode, measured in turns; texts are repeated up to 100 MB."""
    import tokenizers

    size, vocab, repeats = (1_000_000, 400, 2) if quick else (SIZE, VOCAB, REPEATS)
    with TemporaryDirectory() as name:
        folder = Path(name)
        written = write_text(texts, folder / "text.txt", size)
        sources = Sources([folder / "text.txt"])
        codec = TokenizerCodec.train(sources.texts(2**26), vocab)
        codec.tokenizer.save(str(folder / "tokenizer.json"))
        work = _ways(folder, sources, codec)
        seconds: dict[str, list[float]] = {how: [] for how in work}
        for _ in range(repeats):
            for how, run in work.items():
                began = time.perf_counter()
                run()
                seconds[how].append(time.perf_counter() - began)
                print(f"{how:18} {seconds[how][-1]:7.2f} s  {written / seconds[how][-1] / 1e6:6.1f} MB/s", flush=True)
    middle = {how: median(found) for how, found in seconds.items()}
    ratios = {how: middle["prepare"] / value for how, value in middle.items() if how != "prepare"}
    for how, ratio in ratios.items():
        print(f"prepare takes {ratio:.2f} times as long as {how} (medians of {repeats})")
    return {
        "bytes": written,
        "vocab": codec.vocab,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "rayon_threads": os.environ.get("RAYON_NUM_THREADS"),
        "tokenizers": tokenizers.__version__,
        "seconds": seconds,
        "ratios": ratios,
    }


def write_text(texts: Sequence[str | Path], path: Path, size: int) -> int:
    """Documents of the texts, again from the first where they do not suffice, up to about `size` bytes; how many it is."""
    written = 0
    with path.open("wb") as file:
        for piece in cycle(Sources(texts).pieces()):
            written += file.write(str(piece.data).encode() + (b"\f" if piece.ends else b""))
            if written >= size:
                break
    return written


def _ways(folder: Path, sources: Sources, codec: TokenizerCodec) -> dict[str, Callable[[], object]]:
    """The library encodes what is in memory and drops it; prepare reads, encodes, packs, hashes, and writes to the disk."""
    ready = [[str(piece.data) for piece in batch] for batch in batches(sources.pieces())]
    tokenizer = codec.tokenizer

    def encode() -> None:
        for batch in ready:
            tokenizer.encode_batch(batch, add_special_tokens=False)

    def encode_fast() -> None:
        for batch in ready:
            tokenizer.encode_batch_fast(batch, add_special_tokens=False)

    def ours() -> None:
        prepare([folder / "text.txt"], folder / "data", folder / "tokenizer.json", force=True, progress=False)

    return {"prepare": ours, "encode_batch": encode, "encode_batch_fast": encode_fast}
