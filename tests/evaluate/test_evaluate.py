"""Figures of samples beside real text: each against a slow and plain computation, and the command as a user runs it."""

import io
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from judges import STORY, save_judge, tokenizer
from refusals import refused
from seeded import FEATURES, features

from glauber.cli import main
from glauber.data import prepare
from glauber.evaluate.diversity import Known, distinct, mean_entropy, pieces, pooled_entropy, words
from glauber.evaluate.encoder import Encoder
from glauber.evaluate.judge import Judge
from glauber.evaluate.mauve import frontier_area, mauve
from glauber.evaluate.overlap import Overlap, among, characters, joined, longest_overlaps, window_hashes
from glauber.evaluate.text import evaluate_texts, passages, read_texts, spread


def some_text(seed: int, letters: str, size: int) -> str:
    return "".join(random.Random(seed).choices(letters, k=size))


# --- overlap -----------------------------------------------------------------------------------------------------------------


def longest(query: str, documents: list[str]) -> int:
    return max(
        (
            end - at
            for at in range(len(query))
            for end in range(at + 1, len(query) + 1)
            if any(query[at:end] in d for d in documents)
        ),
        default=0,
    )


@pytest.mark.parametrize("letters", ["ab", "abcd ", "the quick brown fox", "日本語é\U0001f600 "])
def test_the_longest_overlap_is_that_of_trying_every_substring(letters):
    documents = [some_text(k, letters, size) for k, size in enumerate((200, 1, 0, 77, 150))]
    queries = [some_text(100 + k, letters, 1 + 7 * k) for k in range(8)]
    queries += [documents[0][50:90], "x" + documents[3][-20:] + documents[4][:20], "zzz", "", documents[4]]
    train = joined([characters(document) for document in documents])
    found = longest_overlaps(train, [characters(query) for query in queries])
    for query, overlap in zip(queries, found, strict=True):
        assert overlap.length == longest(query, documents)
        shared = query[overlap.at : overlap.at + overlap.length]
        assert shared == "".join(map(chr, train[overlap.where : overlap.where + overlap.length]))


def test_the_longest_overlap_is_found_wherever_the_chunks_of_the_training_text_end(monkeypatch):
    text = some_text(0, "abcd", 3000)
    queries = [text[at : at + 40] for at in range(0, 2900, 37)] + [some_text(k, "abcd", 60) for k in range(1, 20)]
    train, encoded = joined([characters(text)]), [characters(query) for query in queries]
    expected = [overlap.length for overlap in longest_overlaps(train, encoded)]
    assert expected[:50] == [40] * 50
    for first, largest in ((1, 1), (7, 50), (100, 100), (5000, 5000)):
        monkeypatch.setattr("glauber.evaluate.overlap.FIRST", first)
        monkeypatch.setattr("glauber.evaluate.overlap.LARGEST", largest)
        assert [overlap.length for overlap in longest_overlaps(train, encoded)] == expected


def test_zero_equals_nothing_so_no_run_goes_over_the_end_of_a_document():
    train = joined([np.array([1, 2], np.uint32), np.array([3, 4], np.uint32)])
    query = np.array([1, 2, 0, 3, 4], np.uint32)
    assert longest_overlaps(train, [query])[0].length == 2
    assert longest_overlaps(train, [np.zeros(3, np.uint32)]) == [Overlap(0, 0, 0)]


def test_the_hash_of_a_window_does_not_depend_on_how_it_was_made_and_differs_between_windows():
    array = characters(some_text(0, "ab", 400))
    for length in (1, 2, 3, 7, 64, 399, 400):
        found = window_hashes(array, length)
        seen = {array[at : at + length].tobytes(): found[at] for at in range(len(array) - length + 1)}
        assert len(found) == len(array) - length + 1
        assert len(set(seen.values())) == len(seen)
        assert all(seen[array[at : at + length].tobytes()] == found[at] for at in range(len(found)))
    assert len(window_hashes(array, 401)) == 0


def test_among_is_membership():
    numbers = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)
    assert among(numbers, numbers[::3]).tolist() == [k % 3 == 0 for k in range(1000)]
    assert not among(numbers, numbers[:0]).any()


# --- diversity ---------------------------------------------------------------------------------------------------------------


def test_words_are_letters_with_apostrophes_between_them():
    assert words("Don’t “stop” 42 times_two, o'clock—caf\u00e9!") == ["don’t", "stop", "times", "two", "o'clock", "caf\u00e9"]


def test_entropies_within_a_text_and_of_all_together():
    assert mean_entropy([[1, 1, 1, 1], [1, 2, 3, 4]]) == pytest.approx(math.log(4) / 2)
    shares = np.array([5, 1, 1, 1]) / 8
    assert pooled_entropy([[1, 1, 1, 1], [1, 2, 3, 4]]) == pytest.approx(-(shares * np.log(shares)).sum())
    assert pooled_entropy([[7], [7]]) == 0


def test_distinct_counts_ngrams_within_texts_only():
    assert distinct([["a", "b", "a", "b"], ["b", "a"]], 1) == 2 / 6
    assert distinct([["a", "b", "a", "b"], ["b", "a"]], 2) == 2 / 4, "ab, ba, ab; ba"
    assert distinct([["a"], ["b", "c"]], 3) is None


def test_what_a_training_text_knows_is_what_a_set_of_its_triples_knows():
    rng = random.Random(0)
    vocabulary = [some_text(k, "abcdefgh", 1 + k % 7) for k in range(30)]
    train = [" ".join(rng.choices(vocabulary, k=300)) for _ in range(3)]
    texts = [" ".join(rng.choices([*vocabulary, "unknown", "Also’unknown"], k=n)) for n in (0, 1, 2, 3, 50, 400)]
    known = Known(train)
    triples = {triple for text in train for triple in zip(words(text), words(text)[1:], words(text)[2:], strict=False)}
    asked = [triple for text in texts for triple in zip(words(text), words(text)[1:], words(text)[2:], strict=False)]
    share = known.triples_share(texts)
    assert share == sum(triple in triples for triple in asked) / len(asked)
    assert 0 < share < 1
    letters = [word for text in texts for word in words(text)]
    inside = {word for text in train for word in words(text)}
    assert known.letters_share(texts) == sum(len(w) for w in letters if w in inside) / sum(map(len, letters))
    assert known.triples_share(["one two"]) is None
    assert known.letters_share(["42"]) is None


def test_pieces_of_a_text_have_its_words():
    text = STORY * 3
    for size in (1, 10, 100, 10**6):
        assert "".join(pieces(text, size)) == text
        assert [word for piece in pieces(text, size) for word in words(piece)] == words(text)


# --- MAUVE -------------------------------------------------------------------------------------------------------------------


def test_the_area_under_the_frontier_is_1_for_equal_laws_falls_with_their_distance_and_is_symmetric():
    laws = [np.array([0.5 + d, 0.5 - d]) for d in (0, 0.1, 0.2, 0.4, 0.5)]
    areas = [frontier_area(laws[0], law) for law in laws]
    assert areas[0] == pytest.approx(1)
    assert areas == sorted(areas, reverse=True)
    for law in laws:
        assert frontier_area(law, laws[1]) == pytest.approx(frontier_area(laws[1], law))


def test_the_area_of_disjoint_laws_is_that_of_its_closed_form():
    # KL(q‖r) = -log(1-w) and KL(p‖r) = -log w, so the curve is ((1-w)^5, w^5), whose area is 5 B(6, 5) = 5 · 5! 4! / 10!
    exact = 5 * math.factorial(5) * math.factorial(4) / math.factorial(10)
    assert frontier_area(np.array([1.0, 0]), np.array([0, 1.0])) == pytest.approx(exact, rel=0.05)


def test_the_area_is_that_of_a_fine_integration_of_the_curve():
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.2, 0.3, 0.3])
    w = np.linspace(0, 1, 20_001)[1:-1]
    curve = []
    for weight in w:
        r = weight * p + (1 - weight) * q
        curve.append([sum(a * math.log(a / b) for a, b in zip(law, r, strict=True) if a) for law in (q, p)])
    x, y = np.exp(-5 * np.array(curve[::-1])).T
    x, y = np.array([0, *x, 1]), np.array([1, *y, 0])
    assert frontier_area(p, q) == pytest.approx(np.trapezoid(y, x), abs=2e-3)


def test_mauve_is_the_area_of_the_shares_in_clusters_that_are_plain_to_see():
    rng = np.random.default_rng(0)
    centres = 10 * np.eye(3)[:2]
    p = np.concatenate([centres[k] + 0.01 * rng.normal(size=(n, 3)) for k, n in enumerate((15, 5))])
    q = np.concatenate([centres[k] + 0.01 * rng.normal(size=(n, 3)) for k, n in enumerate((5, 15))])
    found = mauve(p, q, seeds=3)
    assert found.buckets == 2
    assert found.values == pytest.approx([frontier_area(np.array([0.75, 0.25]), np.array([0.25, 0.75]))] * 3)
    assert found.std == pytest.approx(0)
    assert mauve(p, p).mean == pytest.approx(1)
    with refused("at least 20 texts"):
        mauve(p[:19], q)


@pytest.mark.parametrize("name", FEATURES)
def test_mauve_is_that_of_the_package_mauve_text_on_the_same_features(name):
    theirs = json.loads((Path(__file__).parent / "mauve.json").read_text())[name]  # by experiments/parity/mauve_text.py
    assert mauve(*features(*FEATURES[name])).values == pytest.approx(theirs, abs=0.01)


def test_mauve_of_texts_that_are_all_the_same_is_1_and_of_two_such_sets_nearly_0():
    same, other = np.ones((40, 3)), np.full((40, 3), -1.0)
    assert mauve(same, same).mean == pytest.approx(1)
    assert mauve(same, other).mean < 0.01


def test_mauve_tells_texts_of_one_kind_from_texts_of_another():
    rng = np.random.default_rng(0)
    a, b, far = rng.normal(size=(300, 8)) + 1, rng.normal(size=(200, 8)) + 1, rng.normal(size=(200, 8)) - 1
    near, apart = mauve(a, b), mauve(a, far)
    assert near.number == apart.number == 200
    assert near.mean > 0.8 > 0.2 > apart.mean


# --- reading -----------------------------------------------------------------------------------------------------------------


def test_the_same_texts_are_read_from_every_format(tmp_path):
    texts = [STORY, "Second, with “quotes”.", STORY[50:200]]
    (tmp_path / "a.txt").write_text("\f".join(texts))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "folder").mkdir()
    for k, text in enumerate(texts):
        (tmp_path / "folder" / f"{k}.txt").write_text(text)
    (tmp_path / "sampled").mkdir()
    (tmp_path / "sampled" / "samples.json").write_text(json.dumps({"texts": texts, "tokens": [[1], [2], [3]]}))
    for name in ("a.txt", "a.jsonl", "folder", "sampled", "sampled/samples.json"):
        assert read_texts(tmp_path / name).texts == texts, name
    assert read_texts(tmp_path / "sampled").tokens == [[1], [2], [3]]


def test_tokens_are_read_with_their_codec_and_shards_with_their_own(tmp_path):
    (tmp_path / "a.txt").write_text("\f".join(STORY[k:] for k in range(40)))
    shards = prepare([tmp_path / "a.txt"], tmp_path / "data", "bpe:270", length=32, valid=0.2, progress=False)
    rows = shards.rows("valid")[:]
    np.save(tmp_path / "rows.npy", rows)
    texts = [shards.codec.decode(row) for row in rows]
    assert read_texts(tmp_path / "data").texts == texts
    read = read_texts(tmp_path / "rows.npy", shards.codec)
    assert (read.texts, read.tokens) == (texts, rows.tolist())
    with refused("--tokenizer"):
        read_texts(tmp_path / "rows.npy")
    known = read_texts(tmp_path / "data", split="train").texts
    assert "".join(known) == shards.codec.decode(shards.rows("train")[:].reshape(-1))
    assert sum(text in STORY for text in known) > len(known) / 2, "documents, not rows"
    np.save(tmp_path / "plain.npy", rows)
    prepare([tmp_path / "plain.npy"], tmp_path / "plain", vocab=shards.vocab, progress=False)
    with refused("without a codec"):
        read_texts(tmp_path / "plain")


def test_what_holds_no_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "odd.json").write_text('{"tokens": [[1]]}')
    (tmp_path / "blank.json").write_text('{"texts": ["", " "]}')
    (tmp_path / "nothing").mkdir()
    for name, about in (
        ("empty.txt", "no text"),
        ("odd.json", "texts"),
        ("blank.json", "no text"),
        ("nothing", "holds no"),
        ("no", "no file or folder"),
    ):
        with refused(about):
            read_texts(tmp_path / name)


def test_passages_have_one_length_begin_with_a_word_and_come_from_all_parts():
    text = STORY * 20
    found = passages([text, "A short one."], 100)
    assert found[-1] == "A short one."
    assert {len(passage) for passage in found[:-1]} == {100}
    assert all(passage in text for passage in found[:-1])
    starts = set(STORY.split())
    assert all(any(start.startswith(passage.split()[0]) for start in starts) for passage in found[:-1])
    assert spread(list("abcdefghij"), 4) == ["a", "d", "g", "j"]
    assert spread(list("abc"), 4) == ["a", "b", "c"]


# --- all together ------------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments, cwd) -> Result:
    """The command line in this process; starting another takes seconds, as it imports transformers."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["glauber", "evaluate", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    return Result(left.value.code, out.getvalue(), err.getvalue())


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "glauber", "evaluate", *map(str, arguments)]


ENVIRONMENT = {"PATH": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A judge, samples (shuffled words), held-out text and a training text."""
    folder = tmp_path_factory.mktemp("room")
    save_judge(folder / "judge")
    rng = random.Random(0)
    vocabulary = STORY.split()

    def sentences(number: int) -> str:
        return " ".join(STORY[(at := rng.randrange(200)) : at + 90] for _ in range(number))

    shuffled = [" ".join(rng.choices(vocabulary, k=30)) for _ in range(40)]
    (folder / "samples.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in shuffled))
    (folder / "held-out.txt").write_text(sentences(200))
    (folder / "train.txt").write_text(sentences(300) + "\f" + shuffled[7])
    return folder


ALL = ("samples.jsonl", "--reference", "held-out.txt", "--judge", "judge", "--train", "train.txt")


@pytest.fixture(scope="module")
def figures(room):
    result = run(*ALL, "--out", "all.json", "--json", cwd=room)
    assert result.returncode == 0, result.stderr
    kept = json.loads((room / "all.json").read_text())
    assert kept.pop("command") == f"glauber evaluate {' '.join(ALL)} --out all.json --json"
    assert None not in (kept.pop("commit"), kept.pop("machine"))
    assert json.loads(result.stdout) == kept
    assert not (room / "all.json.partial").exists()
    return json.loads(result.stdout)


def test_every_figure_of_the_samples_stands_beside_that_of_real_text(figures):
    ours, real = figures["samples"], figures["reference"]
    assert ours.keys() == real.keys()
    assert (ours["number"], real["number"]) == (40, 40)
    assert abs(ours["characters"] - real["characters"]) < 10
    assert ours["known_triples"] < real["known_triples"]
    assert ours["mauve"]["number"] == real["mauve"]["number"] == 40
    assert ours["judges"][0]["judge"] == real["judges"][0]["judge"] == "judge"


def test_the_samples_figures_are_those_of_their_texts(figures, room):
    texts = read_texts(room / "samples.jsonl").texts
    ours = figures["samples"]
    tokens = [tokenizer().encode(text).ids for text in texts]
    said = ours["judges"][0]
    assert said["lengths"] == [len(row) for row in tokens]
    assert said["perplexity_paper"] == pytest.approx(np.mean(np.exp(np.array(said["nll"]) / said["lengths"])))
    assert figures["entropy_unit"] == "tokens of judge"
    entropies = [-sum(n / len(row) * math.log(n / len(row)) for n in Counter(row).values()) for row in tokens]
    assert ours["entropy"] == pytest.approx(np.mean(entropies))
    assert ours["distinct"][0] == len({w for t in texts for w in words(t)}) / sum(len(words(t)) for t in texts)


def test_a_sample_that_the_training_text_holds_is_found(figures, room):
    text = read_texts(room / "samples.jsonl").texts[7]
    overlap = figures["samples"]["overlap"]
    assert overlap["nearest"] == {"sample": 7, "shared": text, "training_passage": text}
    assert overlap["characters"]["max"] == len(text)
    assert overlap["words"]["max"] == overlap["words"]["all"][7] == len(words(text))
    assert figures["reference"]["overlap"]["characters"]["max"] < len(text)


def test_the_table_fits_a_terminal_and_has_the_figures(figures, room):
    result = run(*ALL, cwd=room)
    assert result.returncode == 0
    table = result.stdout.partition("longest run")[0].splitlines()
    assert max(map(len, table)) <= 80
    lines = {line[:46].strip(): line[46:].split() for line in table}
    both = (figures["samples"], figures["reference"])
    assert lines["word triples that the training text has"] == [f"{side['known_triples']:.3f}" for side in both]
    assert lines["its tokens"] == [f"{side['judges'][0]['tokens']:,}" for side in both]
    assert lines["perplexity, the usual exp of the mean"] == [f"{side['judges'][0]['perplexity']:,.1f}" for side in both]
    assert f"{both[0]['mauve']['mean']:.3f} ± {both[0]['mauve']['std']:.3f}" in result.stdout
    assert repr(figures["samples"]["overlap"]["nearest"]["shared"]) in result.stdout


def test_a_killed_evaluation_goes_on_to_the_same_figures(figures, room):
    partial = room / "killed.json.partial"
    running = subprocess.Popen(command(*ALL, "--out", "killed.json"), cwd=room, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    while running.poll() is None and not (partial.exists() and partial.stat().st_size):
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    if partial.exists():  # it was not faster than its killer
        assert not (room / "killed.json").exists()
    else:
        (room / "killed.json").unlink()
    result = run(*ALL, "--out", "killed.json", "--json", cwd=room)
    assert json.loads(result.stdout) == figures, result.stderr
    assert not partial.exists()


def test_without_a_judge_there_are_the_figures_that_need_none(room):
    result = run("samples.jsonl", "--reference", "held-out.txt", "--json", cwd=room)
    found = json.loads(result.stdout)
    assert found["entropy_unit"] == "words"
    assert found["samples"].keys() == {"source", "number", "empty", "characters", "distinct", "entropy", "entropy_pooled"}


def test_empty_samples_are_left_out_and_counted(room):
    texts = read_texts(room / "samples.jsonl").texts
    tokens = [[k] * 5 for k in range(42)]
    (room / "some.json").write_text(json.dumps({"texts": [texts[0], "", " \n", *texts[1:]], "tokens": tokens}))
    read = read_texts(room / "some.json")
    assert (read.texts, read.tokens, read.empty) == (texts, [tokens[0], *tokens[3:]], 2)
    arguments = ("some.json", "--reference", "held-out.txt")
    found = json.loads(run(*arguments, "--json", cwd=room).stdout)
    full = json.loads(run("samples.jsonl", *arguments[1:], "--json", cwd=room).stdout)
    assert (full["samples"]["empty"], found["samples"]["empty"], found["reference"]["empty"]) == (0, 2, 0)
    assert found["samples"] == full["samples"] | {"source": "some.json", "empty": 2}
    (row,) = [line for line in run(*arguments, cwd=room).stdout.splitlines() if line.startswith("empty texts, left out")]
    assert row.split()[-2:] == ["2", "0"]
    (room / "one.json").write_text(json.dumps({"texts": ["", texts[0]]}))
    result = run("one.json", *arguments[1:], cwd=room)
    assert result.returncode == 2
    assert "holds only one text that is not empty; give at least two samples" in result.stderr


def test_entropy_is_that_of_the_models_own_tokens_where_they_are_known(room):
    tokens = np.random.default_rng(0).integers(32, 256, (30, 50))  # mostly not UTF-8: the tokens of the text are others
    np.save(room / "bytes.npy", tokens)
    result = run("bytes.npy", "--reference", "held-out.txt", "--tokenizer", "bytes", "--json", cwd=room)
    found = json.loads(result.stdout)
    assert found["entropy_unit"] == "the model's tokens"
    assert found["samples"]["entropy"] == pytest.approx(mean_entropy(tokens.tolist()))


def test_two_judges_and_an_encoder_each_have_their_say(room):
    samples, reference = (read_texts(room / name) for name in ("samples.jsonl", "held-out.txt"))
    judge = str(room / "judge")
    report = evaluate_texts(samples, reference, [judge, judge], features=judge)
    first, second = report["samples"]["judges"]
    assert first == second
    assert report["samples"]["mauve"]["features"] == "judge"
    alone = evaluate_texts(samples, reference, [judge])
    cut = spread(passages(reference.texts, int(np.median([len(text) for text in samples.texts]))), 80)
    by_judge = [[score.feature for score in Judge(judge).scores(some, True)] for some in (samples.texts, cut[::2], cut[1::2])]
    by_encoder = [Encoder(judge).features(some) for some in (samples.texts, cut[::2], cut[1::2])]
    for found, (ours, real, rest) in ((alone, map(np.stack, by_judge)), (report, by_encoder)):
        assert found["samples"]["mauve"]["values"] == pytest.approx(mauve(ours, rest).values, abs=1e-6)
        assert found["reference"]["mauve"]["values"] == pytest.approx(mauve(real, rest).values, abs=1e-6)


def test_filled_gaps_are_scored_beside_the_truth(room):
    lines = [{"prefix": "The old house ", "fill": "sat", "truth": "stood", "suffix": " at the end"}]
    lines += [{"prefix": "He ", "fill": "went in", "truth": "went in", "suffix": ". The room"}]
    (room / "fills.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("fills.jsonl", "--judge", "judge", "--json", cwd=room)
    found = json.loads(result.stdout)
    assert (found["number"], found["recovery"], found["recovery_unit"]) == (2, 0.5, "words")
    said = found["judges"][0]
    assert said["fill"]["all"][1] == said["truth"]["all"][1]
    gap = said["fill"]["all"][0] - said["truth"]["all"][0]
    assert said["difference"] == pytest.approx(gap / 2)
    assert said["difference_error"] == pytest.approx(np.std([gap, 0.0], ddof=1) / 2**0.5)
    for name in ("fill", "truth"):
        length = sum(len(line[name]) + len(line["suffix"]) for line in lines)
        assert said[name]["nll_per_character"] == pytest.approx(sum(said[name]["all"]) / length)
    table = run("fills.jsonl", "--judge", "judge", cwd=room).stdout
    (row,) = [line for line in table.splitlines() if "per character" in line]
    assert row.split()[-2:] == [f"{said[name]['nll_per_character']:.3f}" for name in ("fill", "truth")]
    assert max(map(len, table.splitlines())) <= 80
    assert f"{said['truth']['nll']:.3f}" in table or f"{said['truth']['nll']:,.1f}" in table
    for line in lines:
        line |= {"fill_tokens": [1, 2, 3], "truth_tokens": [1, 5, 3]}
    (room / "fills.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = json.loads(run("fills.jsonl", "--json", cwd=room).stdout)
    assert (found["recovery"], found["recovery_unit"]) == (pytest.approx(2 / 3), "tokens")


def test_a_judge_that_the_hub_does_not_give_is_one_sentence(room):
    arguments = command("samples.jsonl", "--reference", "held-out.txt", "--judge", "no/such-judge")
    result = subprocess.run(arguments, capture_output=True, text=True, cwd=room, env=ENVIRONMENT)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("glauber: no/such-judge cannot be read")
    assert result.stderr.count("\n") == 1


def test_a_users_mistake_is_one_sentence_and_exit_code_2(figures, room):
    (room / "empty").mkdir()
    (room / "bad.gguf").write_bytes(b"GGUF and nothing more")
    beside = ("samples.jsonl", "--reference", "held-out.txt")
    for arguments, about in (
        (("samples.jsonl",), "--reference"),
        (("none.txt", "--reference", "held-out.txt"), "none.txt"),
        ((*beside, "--judge", "empty"), "config.json"),
        ((*beside, "--judge", "./none"), "there is no folder"),
        ((*beside, "--judge", "bad.gguf"), "cannot be read"),
        ((*beside, "--features", "empty"), "config.json"),
        ((*beside, "--tokenizer", "empty"), "is not a model"),
        ((*beside, "--out", "all.json"), "--force"),
    ):
        result = run(*arguments, cwd=room)
        assert result.returncode == 2, (arguments, result)
        assert result.stderr.startswith("glauber: ")
        assert result.stderr.count("\n") == 1, result.stderr
        assert about in result.stderr
        assert result.stdout == ""
