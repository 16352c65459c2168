"""The paper's table: made whole in spite of kills, from the same rows for all methods, with bounds of the very chains."""

import itertools
import json
import math
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import glauber
from refusals import refused

from glauber import Model, NoiseLaw, Process, Schedule, TransformerConfig, evaluate
from glauber.bench.table1 import bench_table1
from glauber.bench.table1 import folder as table_folder
from glauber.bench.table1.folder import Folder
from glauber.bench.table1.plans import Plan, bound, compared_methods, draw
from glauber.bench.table1.plans import plans as table_plans
from glauber.bench.table1.run import _training
from glauber.codec import PixelCodec
from glauber.evaluate.text import Texts
from glauber.method import BoundOptions, Compared, Request, find_method
from glauber.method.mdlm import clean_logits
from glauber.tasks.score import Windows
from glauber.train import run as running
from glauber.train.data import Data
from glauber.train.in_memory import InMemory

KEYS = ["method", "calls", "order", "bits_per_char", "judge_ppl", "entropy", "mauve", "seconds_per_sample", "train_seconds"]
BUDGETS = (2, 8, 32)  # of rows of 32 tokens


def start(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "glauber", "bench", "table1", "--tiny", "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.is_file():
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tiny table, asked to stop while it trains the second method, killed while it trains the third, and then let be."""
    folder = tmp_path_factory.mktemp("table") / "table"
    first = start(folder)
    wait_for(folder / "runs" / "ar" / "log.jsonl", first)
    first.send_signal(signal.SIGTERM)
    assert "the same command goes on" in first.communicate()[0]
    assert first.returncode == 130
    done = (folder / "ggm.json").read_bytes()
    second = start(folder)
    wait_for(folder / "runs" / "mdlm" / "log.jsonl", second)
    second.kill()
    said = second.communicate()[0]
    assert "going on from step" in said
    assert "ggm" not in said
    third = glauber("bench", "table1", "--tiny", "--out", folder)
    assert third.returncode == 0, third.stderr
    assert (folder / "ggm.json").read_bytes() == done
    assert (folder / "table1.md").read_text() in third.stdout
    return folder


def test_the_table_has_a_row_for_all_that_each_method_allows_and_null_where_there_is_no_figure(made):
    table = json.loads((made / "table1.json").read_text())
    assert table["command"] == f"glauber bench table1 --tiny --out {made.name}"
    rows = table["rows"]
    assert all(list(row) == KEYS for row in rows)
    both = [(calls, order) for calls in BUDGETS for order in ("random", "left-to-right" if calls == 32 else "segments")]
    wanted = dict.fromkeys(("mdlm", "sedd"), both)
    wanted |= {name: [(calls, None) for calls in BUDGETS] for name in ("udlm", "plaid")}
    wanted |= {"ar": [(32, "left-to-right")], "real": [(None, None)]}
    wanted["mlm"] = [(calls, order) for calls in (32, 128) for order in ("random", "left-to-right")]
    found = {
        name: [(row["calls"], row["order"]) for row in rows if row["method"] == name] for name in [*compared_methods(), "real"]
    }
    chosen = found.pop("ggm")
    assert [calls for calls, _ in chosen] == [calls for calls, _ in both]
    assert [order for _, order in chosen[::2]] == ["random"] * 3  # and beside it whatever is best
    assert found == wanted
    assert len(rows) == sum(map(len, wanted.values())) + len(chosen)
    assert json.loads((made / "evaluated.json").read_text())["real"]["source"] == str(made / "data" / "test.txt")
    limits = {("udlm", None), ("plaid", None), ("sedd", "random")}
    for row in rows:
        assert row["judge_ppl"] > 1
        assert row["entropy"] > 0
        assert 0 < row["mauve"] <= 1
        if row["method"] == "real":
            assert [row[key] for key in ("bits_per_char", "seconds_per_sample", "train_seconds")] == [None] * 3
            continue
        assert row["seconds_per_sample"] > 0
        assert row["train_seconds"] >= 1.5
        unknown = row["method"] == "mlm" or ((row["method"], row["order"]) in limits and row["calls"] < 32)
        if (row["method"], row["order"]) == ("ggm", "random") or row["method"] != "ggm":
            assert (row["bits_per_char"] is None) == unknown
        assert row["bits_per_char"] is None or 0 < row["bits_per_char"] < math.log2(40)


def test_each_figure_has_its_error(made):
    """That of a perplexity by leaving out one sample after the other."""
    found, evaluated = (json.loads((made / name).read_text()) for name in ("table1.json", "evaluated.json"))
    for row, error in zip(found["rows"], found["errors"], strict=True):
        for key, value in error.items():
            assert (value is None) == (row[key] is None), (row, key)
            assert value is None or value > 0 or key == "mauve"
    side = evaluated["sets"]["plaid, 8 calls"]["judges"][0]
    nats, tokens = np.array(side["nll"]), np.array(side["lengths"]) - 1
    without = np.exp((nats.sum() - nats) / (tokens.sum() - tokens))
    jackknife = np.sqrt((len(nats) - 1) * without.var())
    (at,) = [k for k, row in enumerate(found["rows"]) if (row["method"], row["calls"]) == ("plaid", 8)]
    assert found["errors"][at]["judge_ppl"] == pytest.approx(jackknife, rel=0.05)


def test_the_table_can_be_read_and_looked_at(made):
    assert len((made / "table1.md").read_text().splitlines()) == 2 + 30
    for name in ("calls.png", "bounds.png"):
        assert (made / name).read_bytes()[:4] == b"\x89PNG"


def test_judging_needs_no_run_and_what_was_lost_of_the_samples_is_drawn_again(made, tmp_path):
    before = json.loads((made / "table1.json").read_text())
    here = tmp_path / "elsewhere"
    shutil.copytree(made, here, ignore=shutil.ignore_patterns("runs", "evaluated.json", "scores", "table1.*"))
    (here / "runs").mkdir()
    shutil.copytree(made / "runs" / "plaid", here / "runs" / "plaid", ignore=shutil.ignore_patterns("checkpoints"))
    record = json.loads((here / "plaid.json").read_text())
    lost = record["sets"]["8 calls"]
    tokens, lost["batches"] = [batch["tokens"] for batch in lost["batches"]], []
    (here / "plaid.json").write_text(json.dumps(record))
    partly = bench_table1(here, methods=[], tiny=True)  # what is not whole is not judged
    assert partly["rows"] == [row for row in partly["rows"] if (row["method"], row["calls"]) != ("plaid", 8)]
    assert len(partly["rows"]) == len(before["rows"]) - 1
    others = json.loads((here / "evaluated.json").read_text())
    del others["sets"]["plaid, 32 calls"]["digest"]  # as a table of before has it
    others["sets"]["plaid, 8 calls"] = others["sets"]["plaid, 2 calls"]  # said of other samples, so it does not count
    (here / "evaluated.json").write_text(json.dumps(others))
    after = bench_table1(here, tiny=True)
    again = json.loads((here / "plaid.json").read_text())["sets"]["8 calls"]["batches"]
    assert [batch["tokens"] for batch in again] == tokens
    for old, new in zip(before["rows"], after["rows"], strict=True):
        assert (old["method"], old["calls"], old["order"]) == (new["method"], new["calls"], new["order"])
        for key in ("bits_per_char", "judge_ppl", "entropy", "mauve", "train_seconds"):
            assert new[key] == (None if old[key] is None else pytest.approx(old[key], rel=1e-5))


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"seconds": 3.0}, "differs in seconds"),
        ({"number": 8}, "differs in number"),
        ({"settings": {"network.width": 64}}, "differs in network.width"),
        ({"methods": ["ggm", "gpt"]}, "there is no 'gpt'"),
        ({"data": Path("data")}, "brings its own data"),
        ({"judge": "no/such/judge"}, "there is no folder no/such/judge"),
        ({"tiny": False}, "needs data"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_other_settings_over_a_table_are_refused_and_nothing_is_changed(made, options, about):
    before = {path: path.read_bytes() for path in made.iterdir() if path.is_file()}
    with refused(about):
        bench_table1(made, **({"tiny": True} | options))
    assert {path: path.read_bytes() for path in made.iterdir() if path.is_file()} == before


def test_other_data_another_text_and_another_judge_are_refused(made, tmp_path):
    shards, test = made / "data" / "shards", made / "data" / "test.txt"
    plain = {"data": shards, "test": test, "seconds": 0.1, "number": 2, "methods": []}
    with refused("differs in tiny"):
        bench_table1(made, **plain)
    bench_table1(tmp_path / "mine", **plain)
    bench_table1(tmp_path / "mine", data=shards, test=test, methods=[])  # what is not said is as it was
    (tmp_path / "other.txt").write_text("it was the best of times it was the worst of times " * 9)
    for other in (tmp_path / "other.txt", None):
        with refused("differs in test"):
            bench_table1(tmp_path / "mine", **plain | {"test": other})
    shutil.copytree(made / "judge", tmp_path / "stranger")
    with refused("has scores by judge"):
        bench_table1(made, methods=[], judge=str(tmp_path / "stranger"), tiny=True)


def test_a_folder_of_other_things_and_settings_that_cannot_be_are_refused_before_anything_is_written(made, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    shards = made / "data" / "shards"
    with refused("holds no table"):
        bench_table1(tmp_path, data=shards)
    with refused("holds no table"):
        bench_table1(tmp_path, tiny=True)
    with refused("is a file"):
        bench_table1(tmp_path / "mine.txt", tiny=True)
    for where in ({"data": shards}, {"tiny": True}):
        with refused("did you mean 'network.width'"):
            bench_table1(tmp_path / "new", **where, settings={"network.widht": 64})
    for taken in ({"method": "mdlm"}, {"train.seconds": 3.0}):
        with refused(f"the table sets {next(iter(taken))} itself"):
            bench_table1(tmp_path / "new", data=shards, settings=taken)
    for fewer_calls in ({"number": 1}, {"seconds": -3.0}):
        with refused("at least two samples"):
            bench_table1(tmp_path / "new", data=shards, **fewer_calls)
        with refused("at least two samples"):
            bench_table1(tmp_path / "new", tiny=True, **fewer_calls)
    with refused("does not divide the 31 rows"):
        bench_table1(tmp_path / "new", data=shards, settings={"train.batch": 31})
    with refused("rows of 32, 48, 64"):
        table_plans("mdlm", 40)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_named_like_a_part_of_the_tiny_table_is_not_written_over(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.txt").write_text("mine")
    with refused(str(tmp_path / "data" / "shards")):
        bench_table1(tmp_path, tiny=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "train.txt"]
    assert (tmp_path / "data" / "train.txt").read_text() == "mine"


def test_a_table_is_not_gone_on_with_by_another_recipe(made, tmp_path, monkeypatch):
    plain = {"data": made / "data" / "shards", "methods": []}
    bench_table1(tmp_path / "mine", **plain)
    monkeypatch.setitem(table_folder.SIZE, "network.width", 96)
    with refused("begun with another recipe"):
        bench_table1(tmp_path / "mine", **plain)


def test_a_model_of_another_method_in_the_place_of_a_run_is_refused(made, tmp_path):
    here = tmp_path / "table"
    shutil.copytree(made, here, ignore=shutil.ignore_patterns("runs", "ar.json"))
    shutil.copytree(made / "runs" / "mdlm" / "model", here / "runs" / "ar" / "model")
    with refused("of other settings or data than the table"):
        bench_table1(here, methods=["ar"], tiny=True)


def test_a_model_of_other_data_in_the_place_of_a_run_is_refused(made, tmp_path):
    here = tmp_path / "table"
    shutil.copytree(made, here, ignore=shutil.ignore_patterns("runs", "ar.json"))
    shutil.copytree(made / "runs" / "ar" / "model", here / "runs" / "ar" / "model")
    config = here / "runs" / "ar" / "model" / "config.json"
    config.write_text(config.read_text().replace(json.loads(config.read_text())["about"]["data"], "other"))
    with refused("of other settings or data than the table"):
        bench_table1(here, methods=["ar"], tiny=True)


def test_a_table_of_images_is_refused(tmp_path, monkeypatch):
    rows = InMemory(torch.zeros(4, 16, dtype=torch.int64))
    data = Data(rows, rows, 4, 16, torch.ones(4), PixelCodec((4, 4), 4), "images")
    monkeypatch.setattr("glauber.bench.table1.folder.shards_data", lambda folder: data)
    with refused("is about text"):
        bench_table1(tmp_path / "new", data=tmp_path)


# --- same data, same order ---------------------------------------------------------------------------------------------------


class Watched(InMemory):
    """Rows that remember which of them were read."""

    def __init__(self, tokens: torch.Tensor):
        super().__init__(tokens)
        self.read: list[list[int]] = []

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        self.read.append(index.tolist())
        return super().__getitem__(index)


def test_all_methods_read_the_same_rows_in_the_same_order_with_the_same_network_and_optimiser(tmp_path):
    tokens = torch.randint(7, (50, 32), generator=torch.Generator().manual_seed(0))
    seen, plans = {}, {}
    for method in compared_methods():
        rows = Watched(tokens)
        data = Data(rows, InMemory(tokens[:0]), 7, 32, torch.ones(7), None, "random tokens")
        settings = {"tiny": True, "seconds": 100.0, "set": {"train.steps": 6}}
        plans[method] = Folder(tmp_path, data, Texts("", []), Windows(tokens), settings).plan(method)
        running.run(plans[method], data, tmp_path / method)
        seen[method] = rows.read
    assert len(seen["ggm"]) == 6
    assert {len(batch) for batch in seen["ggm"]} == {32}
    assert all(read == seen["ggm"] for read in seen.values())
    assert all(plan.train == plans["ggm"].train and plan.network == plans["ggm"].network for plan in plans.values())
    assert len({plan.method for plan in plans.values()}) == 7


def test_the_default_network_has_at_most_12_million_parameters_with_every_method():
    table = Folder(Path(), None, Texts("", []), Windows(torch.zeros(1)), {"tiny": False, "seconds": 1.0, "set": {}})
    for method in compared_methods():
        plan = find_method(method).resolve(table.plan(method))
        with torch.device("meta"):
            network = find_method(plan.method).network(plan.network)
        assert 10e6 < sum(parameter.numel() for parameter in network.parameters()) <= 12e6


# --- budgets and bounds ------------------------------------------------------------------------------------------------------

V, L = 5, 32


def some_model(method: str, L: int = L) -> Model:
    """With random weights that are large enough to have opinions."""
    causal = method in ("ggm", "ar")
    torch.manual_seed(0)
    network = find_method(method).network(TransformerConfig(V, L, width=16, layers=1, heads=2, causal=causal))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.4)
    schedule = Schedule.round_robin(L, L, 0.0, "left-to-right") if method == "ar" else Schedule.round_robin(L, 4 * L, "linear")
    return Model(network, Process(schedule, NoiseLaw.uniform(V)), method=method)


@pytest.mark.parametrize("method", compared_methods())
def test_a_sample_costs_as_many_calls_as_its_row_says(method, monkeypatch):
    model, calls = some_model(method), []

    def counting(name, inner):
        def call(*arguments, **options):
            calls.append(name)
            return inner(*arguments, **options)

        return call

    for name in ("extend", "forward"):
        monkeypatch.setattr(model.network, name, counting(name, getattr(model.network, name)))
    for plan in table_plans(method, L):
        calls.clear()
        tokens = draw(model, plan, 3, torch.Generator().manual_seed(0))
        assert tokens.shape == (3, L)
        assert 0 <= tokens.min() <= tokens.max() < V
        chosen = (method, plan.order) == ("ggm", "best")  # a chain that keeps to the budget
        assert 0 < len(calls) <= plan.calls if chosen else len(calls) == plan.calls, plan
        causal = plan.order == "best" and plan.calls == L and method in ("ggm", "ar")
        assert set(calls) == {"extend" if causal else "forward"}


class Pairs:
    """Tokens that are two characters each."""

    def decode(self, row: list[int]) -> str:
        return "ab" * len(row)


def test_the_curve_of_a_training_is_in_bits_per_character(tmp_path):
    model, rows = some_model("ggm"), InMemory(torch.zeros(3, L, dtype=torch.int64))
    model.about = {"seconds": 5.0, "steps": 7}
    log = [
        {"step": 1, "seconds": 1.0, "loss": 2.0},
        {"step": 2, "seconds": 2.0, "loss": 1.9, "valid_bits_per_token": 3.0, "valid_bits_per_token_causal": 2.6},
    ]
    (tmp_path / "runs" / "ggm").mkdir(parents=True)
    (tmp_path / "runs" / "ggm" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    data = Data(rows, rows, V, L, torch.ones(V), Pairs(), "")
    settings = {"tiny": True, "set": {"process.sweeps": 3}, "seconds": 5.0}
    found = _training(Folder(tmp_path, data, Texts("", []), Windows(torch.zeros(1)), settings), "ggm", model)
    assert (found["curve"], found["read"]) == ([(2.0, 1.5)], [(2.0, 1.3)])
    assert (found["seconds"], found["steps"], found["sweeps"]) == (5.0, 7, 3)


def test_a_sample_takes_the_time_of_the_batch_in_the_middle():
    batches = [{"seconds": seconds, "tokens": [[0]] * 4} for seconds in (40.0, 8.0, 12.0)]
    assert table_folder.seconds_per_sample({"batches": batches}) == 3.0


def blocks_of(plan: Plan) -> list[list[int]]:
    """The sites in the order in which a sample gets them, as many at a time as each call draws."""
    if plan.order == "random":
        return torch.randperm(L, generator=torch.Generator().manual_seed(0)).flip(0).view(plan.calls, -1).tolist()
    return [list(range(first, L, plan.calls)) for first in range(plan.calls)]


CHAINS = [(method, Plan(calls, "best")) for method in ("mdlm", "sedd") for calls in BUDGETS]
CHAINS += [("ggm", Plan(calls, "random")) for calls in BUDGETS] + [("ar", Plan(L, "best"))]


@pytest.mark.parametrize(("method", "plan"), [chain for chain in CHAINS if chain[0] != "ar"])
def test_a_sample_gets_its_sites_in_the_order_that_its_bound_is_of(method, plan, monkeypatch):
    model, known = some_model(method), []
    forward = model.network.forward

    def watching(x, t, survival, sites=None):
        clean = (survival > 0) & (x != V)
        known.append((clean if sites is None else clean.scatter(1, sites, False))[0])
        return forward(x, t, survival, sites)

    monkeypatch.setattr(model.network, "forward", watching)
    draw(model, plan, 2, torch.Generator().manual_seed(0))
    blocks = blocks_of(plan)
    wanted = [sorted(site for block in blocks[:k] for site in block) for k in range(len(blocks))]
    assert [now.nonzero().flatten().tolist() for now in known] == wanted


@pytest.mark.parametrize(
    ("options", "kernel"), [({}, "heat-bath"), ({"kernel": "reversal"}, "reversal"), ({"mark_noise": True}, None)]
)
def test_the_bound_of_a_plan_is_that_of_its_own_kernel(options, kernel, monkeypatch):
    model, x0 = some_model("ggm"), torch.randint(V, (3, L), generator=torch.Generator().manual_seed(1))
    schedule = Schedule.round_robin(L, 2 * L, "linear", "segments", 8)
    model.sampling = options
    asked = Request(sweeps=2, block=8, order="segments")  # in one sweep the kernels agree
    monkeypatch.setattr(type(model.method), "compared", lambda *_: [Compared(8, "best", asked)])
    found = bound(model, Plan(8, "best"), Windows(x0, None, torch.full((3,), 7)))
    if kernel is None:  # no bound is known
        assert found is None
        return
    process, generator = Process(schedule, model.process.noise), torch.Generator().manual_seed(0)
    nats = evaluate.bound(model.method.conditional(model.network, process), process, x0, kernel, 8, generator).mean
    assert found is not None
    assert found["bits_per_char"] == pytest.approx(nats / math.log(2) / 7)


@pytest.mark.parametrize(("method", "plan"), CHAINS)
def test_the_bound_of_a_chain_is_minus_the_logarithm_of_the_probability_to_draw_the_rows(method, plan):
    model = some_model(method)
    x0 = torch.randint(V, (3, L), generator=torch.Generator().manual_seed(1))
    nats, z = 0.0, torch.full_like(x0, V)
    with torch.no_grad():
        for sites in blocks_of(plan):
            if method == "ar":
                logits = model.network(z.clamp_max(V - 1), torch.zeros(3), torch.ones(3, L), causal_rows=3)
            else:
                logits = clean_logits(model.network, model.process, z)
            nats -= logits.double().log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)[:, sites].sum().item()
            z[:, sites] = x0[:, sites]
    assert torch.equal(z, x0)
    found = bound(model, plan, Windows(x0, None, torch.tensor([10, 20, 30])))
    assert found is not None
    assert found["bits_per_char"] == pytest.approx(nats / math.log(2) / 60, rel=1e-5)


@pytest.mark.parametrize(("calls", "cuts"), [(2, (0, 2, 4)), (3, (0, 1, 2, 4))])
def test_the_bound_of_random_orders_is_the_mean_over_all_of_them(calls, cuts):
    """The sites come in as equal parts as they can; which come when is drawn for each row."""
    model, x0 = some_model("mdlm", 4), torch.tensor([[0, 3, 1, 1], [4, 2, 2, 0]])
    orders, exact = list(itertools.permutations(range(4))), torch.zeros(2)
    with torch.no_grad():
        for order in orders:
            z = torch.full_like(x0, V)
            for sites in (list(order[first:last]) for first, last in itertools.pairwise(cuts)):
                law = clean_logits(model.network, model.process, z).log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)
                exact -= law[:, sites].sum(1) / len(orders)
                z[:, sites] = x0[:, sites]
    plan, how = model.sampler(calls=calls).plan, BoundOptions(draws=64, generator=torch.Generator().manual_seed(0))
    for row, nats in zip(x0, exact.tolist(), strict=True):
        with torch.no_grad():
            found = model.method.plan_bound(model.network, model.process, plan, row.repeat(4000, 1), how)
        assert found is not None
        error = found.std().item() / math.sqrt(len(found))
        assert error < 0.02 * nats
        assert abs(found.mean().item() - nats) < 5 * error  # false alarm: one in a million
