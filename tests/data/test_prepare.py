"""Documents → token shards."""

import errno
import gzip
import json
import lzma
import pickle
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard
from refusals import refused

from glauber.codec import TokenizerCodec
from glauber.data import Sources, open_shards, prepare
from glauber.data import job as job_module
from glauber.data import plan as plan_module
from glauber.data import sources as sources_module
from glauber.runtime import files as files_module

DOCUMENTS = ["one two three\n", "vier fünf sechs — sieben", "八九十 " * 40, "x" * 300, "the last"]


def prose(size: int, seed: int = 0) -> str:
    """About `size` characters of made-up words, with runs of white space between."""
    draw = random.Random(seed)
    known = ["".join(draw.choices("etaoinshrdluéß", k=draw.randint(1, 9))) for _ in range(500)]
    return "".join(draw.choice(known) + draw.choice([" ", " ", " ", ", ", "\n", "\n\n", "  "]) for _ in range(size // 6))[:size]


def write_txt(path: Path, documents: list[str] = DOCUMENTS) -> Path:
    path.write_bytes("\f".join(documents).encode())
    return path


def lines(documents: list[str] = DOCUMENTS, field: str = "text") -> bytes:
    return "".join(json.dumps({"id": k, field: text}) + "\n" for k, text in enumerate(documents)).encode()


def documents_of(sources: Sources, position=None) -> list[str]:
    """The documents, their pieces joined."""
    found, parts = [], []
    for piece in sources.pieces(position):
        assert piece.starts == (not parts)
        parts.append(piece.data)
        if piece.ends:
            found.append("".join(parts))
            parts = []
    return [*found, "".join(parts)] if parts else found


def make(source, out, **options):
    options = {"tokenizer": "char", "length": 16, "progress": False, **options}
    return prepare(source if isinstance(source, list) else [source], out, **options)


def stream(shards, split="train") -> list[int]:
    rows = shards.rows(split)
    return rows[np.arange(len(rows))].reshape(-1).tolist()


def packed(codec, documents: list[str]) -> list[int]:
    return [i for text in documents for i in [*codec.encode(text), codec.end]]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(sources_module, "PIECE", 64)
    monkeypatch.setattr(job_module, "BATCH", 300)
    monkeypatch.setattr(plan_module, "SECTION", 200)


def test_every_format_gives_the_same_documents(tmp_path):
    plain = b"\f".join(text.encode() for text in DOCUMENTS)
    made = {
        "a.txt": plain,
        "a.txt.gz": gzip.compress(plain),
        "a.txt.xz": lzma.compress(plain),
        "a.jsonl": lines(),
        "a.jsonl.gz": gzip.compress(lines()[:70]) + gzip.compress(lines()[70:]),
        "a.jsonl.xz": lzma.compress(lines()),
        "bom.txt": b"\xef\xbb\xbf" + plain,
        "blank.jsonl": b"\n" + lines() + b"\n \n",
        "blank.txt": b"\f \n\f" + plain + b"\f\f",
    }
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
        assert documents_of(Sources([tmp_path / name])) == DOCUMENTS, name


def test_zst_gives_the_same_documents(tmp_path):
    frames = [zstandard.ZstdCompressor().compress(part) for part in (lines()[:99], lines()[99:])]
    (tmp_path / "a.jsonl.zst").write_bytes(b"".join(frames))
    assert documents_of(Sources([tmp_path / "a.jsonl.zst"])) == DOCUMENTS
    (tmp_path / "a.jsonl.zst").write_bytes(frames[0][:-9])
    with refused("a.jsonl.zst is damaged"):
        documents_of(Sources([tmp_path / "a.jsonl.zst"]))


def test_zst_without_its_package_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.txt.zst").write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install 'glauber\[text\]'"):
        documents_of(Sources([tmp_path / "a.txt.zst"]))


def test_a_folder_is_read_in_the_order_of_its_names_with_its_sub_folders(tmp_path):
    (tmp_path / "b").mkdir()
    for name, text in {"c.txt": "third", "b/y.txt": "second", "a.txt": "first", ".x.txt": "hidden", "z.md": "other"}.items():
        (tmp_path / name).write_text(text)
    sources = Sources([tmp_path])
    assert documents_of(sources) == ["first", "second", "third"]
    assert [file["name"] for file in sources.describe()] == ["a.txt", "b/y.txt", "c.txt"]


def test_a_data_set_of_the_hub_is_streamed(tmp_path, monkeypatch):
    class Rows(list):
        def skip(self, count):
            return Rows(self[count:])

    def load_dataset(name, config, split, streaming):
        assert (name, config, split, streaming) == ("some/texts", "english", "train", True)
        return Rows({"body": text} for text in DOCUMENTS)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr("glauber.data.sources.hub_answers", lambda: True)
    sources = Sources(["hub:some/texts:english"], field="body")
    assert documents_of(sources) == DOCUMENTS
    third = list(sources.pieces())[2]
    assert documents_of(sources, third.after) == DOCUMENTS[3:]
    shards = make("hub:some/texts:english", tmp_path / "out", field="body", valid=0)
    assert stream(shards) == packed(shards.codec, DOCUMENTS)[: len(stream(shards))]


def test_a_data_set_that_cannot_be_had_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'glauber\[text\]'"):
        documents_of(Sources(["hub:some/texts"]))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *a, **b: 1 / 0))
    monkeypatch.setattr("glauber.data.sources.hub_answers", lambda: False)
    with refused("the hub does not answer, so the data set 'some/texts' cannot be read"):
        documents_of(Sources(["hub:some/texts"]))
    monkeypatch.setattr("glauber.data.sources.hub_answers", lambda: True)
    with refused("the hub did not give the data set 'some/texts'"):
        documents_of(Sources(["hub:some/texts"]))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "a.jsonl", "a.jsonl.xz"])
def test_reading_from_any_position_gives_the_pieces_that_follow_it(tmp_path, small_pieces, name):
    documents = [*DOCUMENTS, prose(3000), "y" * 64, "z" * 63 + " ", "八" * 100]
    content = lines(documents) if "jsonl" in name else "\f".join(documents).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(pack(content))
    sources = Sources([tmp_path / name, write_txt(tmp_path / "next.txt", ["after it"])])
    pieces = list(sources.pieces())
    assert documents_of(sources) == [*documents, "after it"]
    assert max(len(piece.data.encode()) for piece in pieces) <= 64
    for k, piece in enumerate(pieces):
        assert [p[:4] for p in sources.pieces(piece.after)] == [p[:4] for p in pieces[k + 1 :]]


@pytest.mark.parametrize("size", range(58, 72))
def test_a_text_about_as_long_as_a_piece_comes_back_identical(tmp_path, small_pieces, size):
    for text in ("八九 " * size, "x" * size, "ab " * (size // 3), "é" * (size // 2) + " é", "a" + " " * size):
        document = text[:size]
        assert documents_of(Sources([write_txt(tmp_path / "a.txt", [document, document])])) == [document, document]


def test_a_document_in_pieces_gives_the_tokens_of_the_whole(tmp_path, small_pieces):
    text = prose(20_000)
    codec = TokenizerCodec.train([text], 500)
    pieces = [str(piece.data) for piece in Sources([write_txt(tmp_path / "a.txt", [text])]).pieces()]
    assert len(pieces) > 300
    assert [i for ids in codec.encode_batch(pieces) for i in ids] == codec.encode(text)


@pytest.mark.parametrize("tokenizer", ["char", "bytes", "bpe:300"])
def test_rows_are_the_documents_with_an_end_of_text_after_each(tmp_path, small_pieces, tokenizer):
    documents = [*DOCUMENTS, prose(1000)] if tokenizer != "bpe:300" else ["a", prose(1000), prose(500, 1), "b c"]
    source = write_txt(tmp_path / "a.txt", documents)
    shards = make(source, tmp_path / "out", tokenizer=tokenizer, valid=0, shard_tokens=100)
    wanted = packed(shards.codec, documents)
    rows = len(wanted) // 16
    assert rows == len(shards.rows("train"))
    assert len(shards.rows("valid")) == 0
    assert stream(shards) == wanted[: rows * 16]
    assert shards.counts.tolist() == np.bincount(wanted[: rows * 16], minlength=shards.vocab).tolist()
    assert shards.header["totals"] == {
        "documents": len(documents),
        "characters": sum(map(len, documents)),
        "bytes": sum(len(text.encode()) for text in documents),
        "tokens": len(wanted),
    }
    assert len(shards.header["splits"]["train"]) == -(-rows // (100 // 16))
    shards.verify()


def test_rows_are_read_by_indices_of_any_shape_across_shards(tmp_path):
    tokens = np.arange(70 * 8) % 97
    np.save(tmp_path / "a.npy", tokens.astype(np.int16))
    rows = make(tmp_path / "a.npy", tmp_path / "out", vocab=97, length=8, valid=0, shard_tokens=8 * 9).rows("train")
    table = tokens.reshape(70, 8)
    draw = np.random.default_rng(0).integers(0, 70, (5, 20))
    assert rows[draw].dtype == np.int64
    assert rows[draw].shape == (5, 20, 8)
    assert np.array_equal(rows[draw], table[draw])
    assert np.array_equal(rows[draw[0]], table[draw[0]])
    assert np.array_equal(rows[3:60:7], table[3:60:7])
    assert np.array_equal(rows[69], table[69])
    assert np.array_equal(pickle.loads(pickle.dumps(rows))[draw], table[draw])
    assert len(pickle.dumps(rows)) < 5000
    for outside in ([70], [-1], [0.5]):
        with pytest.raises(IndexError):
            rows[np.array(outside)]


@pytest.mark.parametrize(("vocab", "dtype"), [(65536, "uint16"), (65537, "uint32")])
def test_a_token_takes_two_bytes_up_to_65536_tokens_and_four_above(tmp_path, vocab, dtype):
    np.save(tmp_path / "a.npy", np.array([0, vocab - 1] * 8))
    shards = make(tmp_path / "a.npy", tmp_path / "out", vocab=vocab, length=4, valid=0)
    assert shards.header["dtype"] == dtype
    assert stream(shards) == [0, vocab - 1] * 8
    assert (tmp_path / "out" / "train-00000.bin").stat().st_size == 16 * np.dtype(dtype).itemsize
    assert shards.codec is None


def test_rows_of_tokens_stay_rows(tmp_path):
    table = np.random.default_rng(0).integers(0, 50, (400, 12))
    np.save(tmp_path / "a.npy", table[:300])
    np.save(tmp_path / "b.npy", table[300:])
    shards = make([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out", vocab=50, length=None, valid=0.1)
    assert shards.length == 12
    train, valid = (shards.rows(split)[:] for split in ("train", "valid"))
    assert (len(train), len(valid)) == (360, 40)
    assert sorted(map(tuple, [*train, *valid])) == sorted(map(tuple, table))


def test_a_document_lies_in_one_split_only_and_the_shares_are_kept(tmp_path):
    documents = [chr(0x4E00 + k) * (20 + k % 13) for k in range(500)]
    shards = make(write_txt(tmp_path / "a.txt", documents), tmp_path / "out", valid=0.1)
    train, valid = (set(stream(shards, split)) - {shards.codec.end} for split in ("train", "valid"))
    assert not train & valid
    total = sum(map(len, documents)) + len(documents)
    assert abs(len(stream(shards, "valid")) / total - 0.1) < 0.01


def test_a_long_document_is_split_by_sections_and_ends_where_it_changes_sides(tmp_path, small_pieces):
    text = prose(5000)
    shards = make(write_txt(tmp_path / "a.txt", [text]), tmp_path / "out", tokenizer="bytes", valid=0.25, length=1)
    train, valid = (shards.codec.decode(stream(shards, split)) for split in ("train", "valid"))
    assert len(train) + len(valid) == len(text)
    assert abs(len(valid) / len(text) - 0.25) < 0.06
    sections = _texts(shards, "train")
    assert all(section in text for section in [*sections, *_texts(shards, "valid")])
    assert len(sections) > 3
    for split in ("train", "valid"):  # an end stands behind what it ends
        tokens, end = stream(shards, split), shards.codec.end
        assert (tokens[0] == end, tokens[-1] == end) == (False, True)


def _texts(shards, split) -> list[str]:
    """What stands between the ends of text."""
    parts: list[list[int]] = [[]]
    for token in stream(shards, split):
        parts.append([]) if token == shards.codec.end else parts[-1].append(token)
    return [shards.codec.decode(part) for part in parts]


def test_a_single_short_document_is_validated_on_its_last_rows(tmp_path):
    text = prose(3000)
    shards = make(write_txt(tmp_path / "a.txt", [text]), tmp_path / "out", valid=0.05)
    assert len(shards.rows("valid")) == round(0.05 * (3001 // 16))
    assert stream(shards) + stream(shards, "valid") == packed(shards.codec, [text])[: 3001 // 16 * 16]
    assert shards.counts.sum() == len(stream(shards))


def test_the_last_rows_are_a_share_of_all_rows_also_of_those_that_are_written(tmp_path):
    shards = make(write_txt(tmp_path / "a.txt", [prose(3000)]), tmp_path / "out", valid=0.05, shard_tokens=50 * 16)
    assert [shard["rows"] for shard in shards.header["splits"]["train"]][:3] == [50, 50, 50]
    assert len(shards.rows("valid")) == round(0.05 * (3001 // 16)) == 9


def test_validation_may_have_its_own_sources(tmp_path):
    train, valid = write_txt(tmp_path / "a.txt"), write_txt(tmp_path / "v.txt", [prose(500)])
    shards = make(train, tmp_path / "out", valid=[valid])
    assert stream(shards, "valid") == packed(shards.codec, [prose(500)])[: 501 // 16 * 16]
    wanted = packed(shards.codec, DOCUMENTS)
    assert stream(shards) == wanted[: len(wanted) // 16 * 16]
    with refused("longer than all 3 validation tokens"):
        make(train, tmp_path / "short", valid=write_txt(tmp_path / "w.txt", ["ab"]))
    assert not list(tmp_path.glob("short*"))


def test_a_lossy_tokenizer_is_told_and_recorded(tmp_path, capsys):
    from tokenizers import normalizers

    codec = TokenizerCodec.train(DOCUMENTS, 300)
    codec.tokenizer.normalizer = normalizers.Lowercase()
    codec.tokenizer.save(str(tmp_path / "t.json"))
    source = write_txt(tmp_path / "a.txt", ["One Two Three " * 10])
    shards = make(source, tmp_path / "out", tokenizer=tmp_path / "t.json", progress=True)
    assert "lossy" in capsys.readouterr().err
    assert not shards.codec.lossless
    assert shards.codec.decode(shards.rows("train")[0]) in "one two three " * 10


def test_the_same_input_gives_the_same_bytes_wherever_it_lies(tmp_path, small_pieces):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        write_txt(tmp_path / name / "a.txt", [*DOCUMENTS, prose(3000)])
        make(tmp_path / name / "a.txt", tmp_path / name / "out", tokenizer="bpe:300", shard_tokens=256)
    assert files_of(tmp_path / "here" / "out") == files_of(tmp_path / "there" / "out")
    assert len(files_of(tmp_path / "here" / "out")) > 5


def test_one_letter_changes_the_hash(tmp_path):
    shards = [make(write_txt(tmp_path / "a.txt", [text]), tmp_path / text[:2]) for text in ("ab" * 50, "ba" * 50)]
    assert shards[0].hash != shards[1].hash
    assert open_shards(tmp_path / "ab").hash == shards[0].hash


def test_work_cut_off_after_any_batch_goes_on_to_the_same_bytes(tmp_path, small_pieces, monkeypatch):
    source = write_txt(tmp_path / "a.txt", [*DOCUMENTS, prose(2500), *DOCUMENTS])
    options = {"tokenizer": "bpe:300", "valid": 0.2, "shard_tokens": 160}
    make(source, tmp_path / "straight", **options)
    monkeypatch.setattr(job_module, "SAVE_EVERY", -1.0)
    take, batches = job_module.Job.take, 0

    def cut_off(job, *batch):
        nonlocal batches
        take(job, *batch)
        batches += 1
        raise KeyboardInterrupt

    def one_more(job, *batch):
        take(job, *batch)
        monkeypatch.setattr(job_module.Job, "take", cut_off)

    for _ in range(100):
        monkeypatch.setattr(job_module.Job, "take", one_more)
        try:
            make(source, tmp_path / "out", **options)
            break
        except KeyboardInterrupt:
            assert not (tmp_path / "out").exists()
    assert batches > 10
    assert files_of(tmp_path / "out") == files_of(tmp_path / "straight")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out", "straight"]


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from glauber.data import job, plan, prepare, sources
sources.PIECE, job.BATCH, plan.SECTION, job.SAVE_EVERY = 512, 4096, 4096, 0.02
folder, draw, kills = Path(sys.argv[1]), random.Random(0), 0
def work(out):
    prepare([folder / "a.txt.gz", folder / "b.jsonl"], out, "bpe:300", 32, 0.1, shard_tokens=4096, progress=False)
work(folder / "straight")
take = job.Job.take
job.Job.take = lambda *batch: (time.sleep(0.01), take(*batch))  # about a hundred batches: no two kills can span the work
while not (folder / "out").exists():
    child = os.fork()
    if not child:
        work(folder / "out")
        os._exit(0)
    if kills < 12:
        time.sleep(draw.uniform(0.0, 0.4))
        os.kill(child, signal.SIGKILL)
    kills += os.waitpid(child, 0)[1] == signal.SIGKILL
work(folder / "out") if (folder / "out" / "journal.npz").exists() else None
print(kills)
"""


def test_work_killed_at_random_moments_goes_on_to_the_same_bytes(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\f".join(prose(40_000, seed) for seed in range(6)).encode()))
    (tmp_path / "b.jsonl").write_bytes(lines([prose(random.Random(k).randint(1, 900), k) for k in range(200)]))
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    assert files_of(tmp_path / "out") == files_of(tmp_path / "straight")
    assert not list(tmp_path.glob("out.*"))


def cut_short(source: Path, out: Path, monkeypatch, **options) -> Path:
    """Unfinished work with some shards."""
    with monkeypatch.context() as patch:
        patch.setattr(job_module.Job, "finish", lambda job: (job.save(), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            make(source, out, **options)
    return out.with_name(out.name + ".unfinished")


def test_unfinished_work_with_another_choice_is_refused_and_kept(tmp_path, monkeypatch):
    source = write_txt(tmp_path / "a.txt")
    work = cut_short(source, tmp_path / "out", monkeypatch)
    before = files_of(work)
    with refused("another choice of length, shard_rows; repeat that choice"):
        make(source, tmp_path / "out", length=8)
    with refused("another choice of tokenizer;"):
        make(source, tmp_path / "out", tokenizer="bytes")
    source.write_text("other text " * 50)
    with refused("another choice of sources;"):
        make(source, tmp_path / "out")
    assert files_of(work) == before
    assert make(source, tmp_path / "out", force=True).codec.decode([0, 1]) == " e"
    assert not work.exists()


def test_finished_data_and_strange_files_are_refused_and_kept(tmp_path):
    source, out = write_txt(tmp_path / "a.txt"), tmp_path / "out"
    make(source, out)
    before = files_of(out)
    with refused("out holds prepared data already"):
        make(source, out, tokenizer="bytes")
    with refused("longer than all"):
        make(source, out, length=10_000, force=True)
    assert files_of(out) == before
    assert make(source, out, tokenizer="bytes", force=True).vocab == 257
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.doc").write_text("dear")
    for force in (False, True):
        with refused("mine holds other files"):
            make(source, tmp_path / "mine", force=force)
        with refused("is a file"):
            make(source, source, force=force)
    (tmp_path / "empty").mkdir()
    assert len(make(source, tmp_path / "empty").rows("train"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "empty", "mine", "out"]


def test_a_row_longer_than_all_tokens_is_refused_and_leaves_nothing(tmp_path):
    source = write_txt(tmp_path / "a.txt", ["short", "texts"])
    with refused("a row of 256 is longer than all 12 training tokens"):
        make(source, tmp_path / "out", length=256, valid=0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_one_sentence_and_the_work_goes_on_when_there_is_space(tmp_path, monkeypatch):
    source = write_txt(tmp_path / "a.txt", [prose(5000)])
    straight = make(source, tmp_path / "straight", shard_tokens=512)
    synced, fsync = 0, files_module.os.fsync

    def full(handle):
        nonlocal synced
        synced += 1
        if synced > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "fsync", full)
        with pytest.raises(OSError, match=r"^the disk of \S+ is full; free some space") as caught:
            make(source, tmp_path / "out", shard_tokens=512)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out.unfinished").glob("train-*.bin"))
    assert not list((tmp_path / "out.unfinished").glob("*.tmp"))
    assert make(source, tmp_path / "out", shard_tokens=512).hash == straight.hash


def test_a_last_step_cut_off_is_made_up_for(tmp_path, monkeypatch):
    source, out = write_txt(tmp_path / "a.txt"), tmp_path / "out"
    journal = cut_short(source, out, monkeypatch) / "journal.npz"
    kept = journal.read_bytes()
    wanted = make(source, out)
    (out / "journal.npz").write_bytes(kept)
    assert make(source, out).hash == wanted.hash
    assert not (out / "journal.npz").exists()


@pytest.fixture
def finished(tmp_path) -> Path:
    make(write_txt(tmp_path / "a.txt", [prose(5000)]), tmp_path / "out", shard_tokens=512)
    return tmp_path / "out"


def test_a_missing_or_truncated_file_is_named(finished):
    shard = finished / "train-00003.bin"
    content = shard.read_bytes()
    shard.write_bytes(content[:-2])
    with refused(f"{shard} has {len(content) - 2} bytes instead of {len(content)}"):
        open_shards(finished)
    shard.unlink()
    with refused(f"the file {shard} is missing"):
        open_shards(finished)
    shard.write_bytes(content)
    open_shards(finished).verify()
    (finished / "counts.npy").write_bytes(b"")
    with refused("counts.npy is damaged"):
        open_shards(finished)
    (finished / "counts.npy").unlink()
    with refused("counts.npy is missing"):
        open_shards(finished)


def test_a_shard_whose_hash_does_not_match_is_named(finished):
    content = bytearray((finished / "train-00002.bin").read_bytes())
    content[7] ^= 1
    (finished / "train-00002.bin").write_bytes(content)
    with refused("train-00002.bin are not what was prepared"):
        open_shards(finished).verify()


@pytest.mark.parametrize(
    "change",
    [
        *[{"vocab": 9}, {"length": 8}, {"format": "old"}, {"dtype": "uint32"}, {"splits": {}}, {"hash": ""}, {"codec": None}],
        *[{"counts": {"file": "counts.npy", "sha256": "0" * 64}}, {"classes": ["a", "b"]}],
    ],
)
def test_a_header_that_was_changed_is_refused(finished, change):
    header = json.loads((finished / "header.json").read_text())
    (finished / "header.json").write_text(json.dumps({**header, **change}))
    with refused("header.json is damaged, or of another version"):
        open_shards(finished)


def test_a_folder_without_prepared_data_is_refused(tmp_path, finished):
    with refused("holds no prepared data"):
        open_shards(tmp_path)
    with refused("there is no split 'test'"):
        open_shards(finished).rows("test")
    (finished / "header.json").write_text("{")
    with refused("header.json is damaged"):
        open_shards(finished)


WRONG_FILES = {
    "latin.txt": (b"caf\xe9 au lait", "not UTF-8 at byte 3"),
    "cut.txt": ("é".encode()[:1], "not UTF-8 at byte 0"),
    "a.txt.gz": (gzip.compress(b"hello" * 99)[:-12], "a.txt.gz is damaged or cut short"),
    "a.txt.xz": (b"not packed at all", "a.txt.xz is damaged or cut short"),
    "b.txt.gz": (b"not packed at all", "b.txt.gz is damaged or cut short"),
    "a.jsonl": (lines() + b"{not json}\n", f"line at byte {len(lines())} of .*a.jsonl is not JSON"),
    "field.jsonl": (lines(field="body"), "no text in the field 'text'; there is text in: body$"),
    "list.jsonl": (b"[1, 2]\n", "no text in the field 'text'"),
    "half.jsonl": (b'{"text": "a\\ud800b"}\n', "half a character"),
    "notes.md": (b"# text", "notes.md is not a .txt"),
    "blank.txt": (b" \n\f\n", "no characters"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_file_that_cannot_be_read_is_one_sentence_and_leaves_nothing(tmp_path, name):
    content, about = WRONG_FILES[name]
    (tmp_path / name).write_bytes(content)
    for tokenizer in ("char", "bpe:300") if name != "blank.txt" else ("char",):
        with refused(about):
            make(tmp_path / name, tmp_path / "out", tokenizer=tokenizer, length=4)
    assert [path.name for path in tmp_path.iterdir()] == [name]


WRONG_TOKENS = {
    "negative": (np.array([0, -1, 2]), 5, "holds tokens of -1..2"),
    "large": (np.arange(6), 5, "holds tokens of 0..5, which do not fit a vocabulary of 5"),
    "fractions": (np.ones(9), 5, "whole numbers"),
    "cube": (np.ones((2, 2, 2), dtype=int), 5, "whole numbers of shape"),
    "empty": (np.ones(0, dtype=int), 5, "whole numbers of shape"),
    "unsaid": (np.arange(5), None, "need their vocabulary size"),
    "rows": (np.ones((4, 3), dtype=int), 5, "rows of 3 tokens, not 2"),
}


@pytest.mark.parametrize("name", WRONG_TOKENS)
def test_tokens_that_do_not_fit_are_one_sentence_and_leave_nothing(tmp_path, name):
    tokens, vocab, about = WRONG_TOKENS[name]
    np.save(tmp_path / "a.npy", tokens)
    with refused(about):
        make(tmp_path / "a.npy", tmp_path / "out", vocab=vocab, length=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_an_npy_that_could_run_code_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object))
    with refused("a.npy is damaged, or not an array of numbers"):
        make(tmp_path / "a.npy", tmp_path / "out", vocab=5)


def test_other_mistakes_are_one_sentence(tmp_path):
    text = write_txt(tmp_path / "a.txt")
    np.save(tmp_path / "b.npy", np.arange(5))
    (tmp_path / "none").mkdir()
    out = tmp_path / "out"
    for about, source, options in [
        ("there is no file or folder", tmp_path / "c.txt", {}),
        ("nothing to read", [], {}),
        ("none holds no .txt", tmp_path / "none", {}),
        ("prepare them apart", [text, tmp_path / "b.npy"], {"vocab": 5}),
        ("only for .npy", text, {"vocab": 5}),
        ("at least 0 and below 1", text, {"valid": 1.0}),
        ("at least 1, not 0", text, {"length": 0}),
        ("unknown tokenizer 'words'", text, {"tokenizer": "words"}),
    ]:
        with refused(about):
            make(source, out, **options)
    assert not list(tmp_path.glob("out*"))


MEMORY = """
import re, sys
from pathlib import Path
from glauber.data import prepare

def peak():  # in KiB; what getrusage says includes that of the process which started this one
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

folder = Path(sys.argv[1])
before = peak()
shards = prepare([folder / "a.txt"], folder / "out", sys.argv[2], 256, progress=False)
print(before, peak(), len(shards.rows("train")))
"""


def test_memory_stays_far_below_a_gibibyte_on_200_megabytes_in_one_document(tmp_path):
    block = prose(2**20).encode()
    with (tmp_path / "a.txt").open("wb") as file:
        for _ in range(200):
            file.write(block)
    command = [sys.executable, "-c", MEMORY, str(tmp_path), "bytes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    before, after, rows = map(int, done.stdout.split())
    assert rows * 256 > 190e6
    assert after < 700 * 1024  # in KiB, torch's own 250 MiB among them
    assert after - before < 300 * 1024


@pytest.mark.slow
def test_memory_stays_below_a_gibibyte_when_a_bpe_is_trained_on_the_data(tmp_path):
    with (tmp_path / "a.txt").open("wb") as file:
        for seed in range(100):
            file.write(prose(2**20, seed).encode())
    command = [sys.executable, "-c", MEMORY, str(tmp_path), "bpe:8192"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert int(done.stdout.split()[1]) < 2**20


def test_a_few_long_documents_keep_the_share_of_validation_too(tmp_path):
    shards = make(
        write_txt(tmp_path / "a.txt", [prose(100_000, seed) for seed in range(3)]), tmp_path / "out", valid=0.1, length=64
    )
    train, valid = (len(shards.rows(split)) for split in ("train", "valid"))
    assert 0.05 < valid / (train + valid) < 0.2


def test_the_bench_measures_in_turns_and_leaves_raw_figures(tmp_path):
    (tmp_path / "a.txt").write_text(prose(50_000))
    command = [sys.executable, "-m", "glauber", "bench", "prepare", "--quick", "--text", str(tmp_path / "a.txt")]
    command += ["--out", str(tmp_path / "raw.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "raw.json").read_text())
    assert figures["command"] == "glauber bench prepare --quick --text a.txt --out raw.json"
    plans = ["prepare", "encode_batch", "encode_batch_fast"]
    assert [line.split()[0] for line in done.stdout.splitlines()][:6] == plans * 2
    assert 1_000_000 <= figures["bytes"] < 1_050_000
    middle = {how: sum(seconds) / 2 for how, seconds in figures["seconds"].items()}
    assert figures["ratios"] == pytest.approx({how: middle["prepare"] / middle[how] for how in plans[1:]})
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 2
    assert "raw.json exists" in again.stderr
    without = subprocess.run([*command[:5], "--quick"], capture_output=True, text=True, timeout=300)
    assert (without.returncode, "--text" in without.stderr) == (2, True)
