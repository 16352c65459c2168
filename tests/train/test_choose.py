"""A recipe that nobody named: every choice that is printed, at the edges of what data, time and machine can be."""

import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from refusals import refused

from glauber.conditional import TransformerConfig
from glauber.recipe import TrainSpec
from glauber.train import choose as choosing
from glauber.train import fitting
from glauber.train.choose import RATIO, SIZES, blocks, choose, foresee
from glauber.train.data import Data
from glauber.train.explain import as_toml, lines, reasons
from glauber.train.in_memory import InMemory
from glauber.train.measure import Speed
from glauber.train.overrides import read_settings, recipe_of
from glauber.train.parallel import World
from glauber.train.run import run

SHORT = 0.02
"""Minutes."""


def data_of(rows: int, length: int, vocab: int = 5, valid: int = 4, classes: int = 0) -> Data:
    """Random tokens, and as many names of classes, of which the rows have some."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocab, (rows + valid, length), generator=draw)
    told = torch.randint(max(1, classes), (rows + valid,), generator=draw) if classes else None
    train, held = (
        InMemory(tokens[part], None if told is None else told[part]) for part in (slice(rows), slice(rows, rows + valid))
    )
    counts = tokens[:rows].flatten().bincount(minlength=vocab)
    return Data(train, held, vocab, length, counts, None, "random tokens", tuple(f"c{k}" for k in range(classes)))


def trained(data: Data, out, **settings):
    return fitting.train_chosen(data, SHORT, out, None, None, settings, lambda words: None)


@pytest.fixture
def timed(monkeypatch):
    """A machine on which a step takes as long as one says, and a validation a second."""

    def clock(seconds) -> None:
        monkeypatch.setattr(choosing, "step_seconds", lambda plan, data: seconds(plan))
        monkeypatch.setattr(choosing, "speed", lambda plan, data, step=None: Speed(seconds(plan), 1.0))

    return clock


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_a_batch_is_no_larger_than_the_data_but_for_a_pair_of_rows(rows, tmp_path):
    data = data_of(rows, 8, valid=0 if rows == 1 else 2)
    choice = choose(data, SHORT)
    assert choice.plan.train.batch == max(2, rows // 2 * 2)
    assert "as many as there are" in reasons(choice, data)["train.batch"]
    if rows in (1, 3):
        assert trained(data, tmp_path / "run").finished


def test_rows_of_one_token_are_trained_on(tmp_path):
    assert trained(data_of(40, 1, vocab=2), tmp_path / "run").finished


def test_a_million_classes_are_not_told_and_a_few_with_rows_enough_are(timed):
    timed(lambda plan: 0.01)
    many = data_of(100, 8, classes=1_000_000)
    choice = choose(many, 1)
    assert (choice.plan.network.causal, choice.plan.network.classes, choice.plan.train.causal_every) == (True, 0, 2)
    assert "1,000,000 classes are too many to be told, with 100 rows" in reasons(choice, many)["train.causal_every"]
    few = data_of(100, 8, classes=12)
    choice = choose(few, 1)
    assert (choice.plan.network.causal, choice.plan.network.classes, choice.plan.train.causal_every) == (False, 12, 0)
    assert "told classes" in reasons(choice, few)["train.causal_every"]
    assert choose(data_of(100, 8, classes=13), 1).plan.network.classes == 0  # fewer than eight rows of each


def test_where_the_disk_has_no_room_nothing_is_begun(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10_000))
    with refused(r"the run will take up to .* MB in .*run, and the disk has 0\.0 MB"):
        trained(data_of(40, 8), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_gpu_it_says_so_and_with_one_it_takes_bf16(timed, monkeypatch):
    timed(lambda plan: 0.01)
    data = data_of(40, 8)
    assert "no GPU, so the CPU" in "\n".join(lines(choose(data, 1), data))
    assert choose(data, 1).plan.train.precision == "fp32"
    monkeypatch.setattr(World, "device", property(lambda self: torch.device("cuda")))
    assert choosing._plan(data, SIZES[0], None).train.precision == "bf16"


@pytest.mark.parametrize("tokens_per_second", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("rows", [100, 2_000, 20_000])
def test_the_size_is_the_largest_that_the_time_and_the_data_allow(tokens_per_second, rows, timed):
    """A machine on which the time of a token is proportional to the parameters that it goes through."""

    def seconds(plan) -> float:
        return plan.train.batch * 64 * blocks(plan.network) / SMALLEST / tokens_per_second

    SMALLEST = blocks(TransformerConfig(2, 1, *SIZES[0], cond_dim=32))
    timed(seconds)
    choice = choose(data_of(rows, 64, valid=2), 5)
    allowed = [SIZES[0]]
    for width, layers, heads in SIZES[1:]:
        size = blocks(TransformerConfig(2, 1, width, layers, heads, cond_dim=32 if width < 256 else 64))
        if size > rows * 64 or 300 * tokens_per_second * SMALLEST / size < RATIO * size:
            break
        allowed.append((width, layers, heads))
    network = choice.plan.network
    assert (network.width, network.layers, network.heads) == allowed[-1]
    assert ("tokens to train on" in choice.size) or ("for each parameter" in choice.size)


def test_choosing_stops_where_it_would_take_too_much_of_the_time(timed, monkeypatch):
    timed(lambda plan: 1e-6)
    data = data_of(20_000, 64)
    assert choose(data, 0.2).plan.network.width > SIZES[2][0]

    clock = [0.0]

    def slow(plan, data):
        clock[0] += 1.2
        return 1e-6

    monkeypatch.setattr(choosing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(choosing, "step_seconds", slow)
    monkeypatch.setattr(choosing, "speed", None)  # it is not called
    choice = choose(data, 0.2)
    assert (choice.plan.network.width, choice.spent) == (SIZES[1][0], 2.4)
    assert "no time to try the next one" in choice.size


def test_with_more_time_the_batch_grows_and_the_steps_stay(timed):
    timed(lambda plan: plan.train.batch * 2e-4)
    choices = [choose(data_of(5_000, 64), minutes) for minutes in (0.3, 2, 10)]
    batches = [choice.plan.train.batch * 64 for choice in choices]
    assert batches[0] < batches[1] < batches[2]
    for choice, tokens in zip(choices[1:], batches[1:], strict=True):
        assert tokens & (tokens - 1) == 0
        assert choosing.STEPS / 2 < choice.forecast.steps <= 2 * choosing.STEPS


def test_what_is_foreseen_is_the_sum_of_its_parts():
    spec = TrainSpec(steps=1000, batch=4, seconds=20.0, evaluate_every=30)
    steps, seconds, times = foresee(spec, 50, Speed(0.1, 2.0), 3.0)
    assert (steps, seconds, times) == (200, pytest.approx(3 + 20 + 7 * 2), 16)
    by_steps = TrainSpec(steps=100, batch=4, evaluate_every=30)
    assert foresee(by_steps, 50, Speed(0.1, 2.0)) == (100, pytest.approx(10 + 4 * 2), 8)


@pytest.mark.parametrize("minutes", [0.5, 5, 60])
def test_the_time_is_what_was_asked_for(minutes, timed):
    timed(lambda plan: 0.02)
    choice = choose(data_of(500, 16), minutes)
    assert choice.forecast.seconds == pytest.approx(60 * minutes, rel=0.1)
    assert choice.plan.train.steps == pytest.approx(choosing.SPARE * choice.plan.train.seconds / 0.02, rel=0.01)


def test_a_row_that_will_be_seen_often_is_warned_of(timed):
    timed(lambda plan: plan.train.batch * 1e-4)
    data = data_of(20, 16)
    assert "beyond 20 a network learns rows by heart" in "\n".join(lines(choose(data, 1), data))
    assert "by heart" not in "\n".join(lines(choose(data_of(60_000, 16), 1), data))


def test_what_the_user_sets_is_kept_and_said(timed):
    timed(lambda plan: 0.01)
    data = data_of(500, 16)
    choice = choose(data, 1, settings={"train.batch": 6, "network.width": 48, "train.seconds": 7.0})
    assert (choice.plan.train.batch, choice.plan.network.width, choice.plan.train.seconds) == (6, 48, 7.0)
    assert choice.forecast.steps == 700
    assert reasons(choice, data)["train.batch"] == "6; as you set it"
    with refused("did you mean 'train.batch'"):
        choose(data, 1, settings={"train.bach": 6})


@pytest.mark.parametrize("minutes", [0, -1, math.inf, math.nan])
def test_a_time_that_is_none_is_refused(minutes):
    with refused("a number of minutes above 0"):
        choose(data_of(40, 8), minutes)


def test_the_choice_is_written_as_settings_that_are_read_back(timed, tmp_path):
    timed(lambda plan: 0.01)
    data = data_of(500, 16)
    choice = choose(data, 1)
    (tmp_path / "chosen.toml").write_text(text := as_toml(choice.plan, reasons(choice, data)))
    again = recipe_of(read_settings(tmp_path / "chosen.toml"))
    assert again.train == choice.plan.train
    assert again.process == choice.plan.process
    assert {**again.to_dict()["network"], "vocab": 5, "length": 16} == choice.plan.to_dict()["network"]
    assert 'noise = "unigram"  # as often as the tokens occur' in text


def test_a_run_keeps_its_choice_beside_its_config(tmp_path):
    said: list[str] = []
    fitting.train_chosen(data_of(40, 8), SHORT, tmp_path / "run", None, None, {}, said.append)
    assert any("glauber train --config takes it" in words for words in said)
    plan = recipe_of(read_settings(tmp_path / "run" / "chosen.toml"))
    assert run(plan, data_of(40, 8), tmp_path / "again", say=lambda words: None).finished


def test_the_table_of_sizes_in_the_docs_is_that_of_the_code():
    page = (Path(__file__).parents[2] / "docs" / "sizes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert [tuple(map(int, row[:3])) for row in rows] == list(SIZES)
    for *size, parameters, tokens, rate in rows:
        network = choosing._plan(data_of(4, 4), tuple(map(int, size)), None).network
        assert int(parameters.replace(",", "")) == blocks(network)
        assert int(tokens.replace(",", "")) == RATIO * blocks(network)
        assert float(rate) == choosing._rate(int(size[0]))
