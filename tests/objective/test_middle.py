"""An autoregressive model that learns some rows with the middle last."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused

from glauber import NoiseLaw, Process, Schedule, Transformer, TransformerConfig, load
from glauber.codec import CharCodec
from glauber.method import LossOptions, find_method
from glauber.objective import causal
from glauber.objective.middle import ADDED, middle, taken_apart
from glauber.process.draws import KeyedGenerator, new_generator
from glauber.recipe import TrainSpec
from glauber.tasks.middle import fill_middle
from glauber.train import recipe
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.run import run

END, MARK = 9, 11


def test_a_row_that_is_taken_apart_has_all_its_tokens_but_the_last_three_and_two_marks_and_an_end():
    x0 = torch.arange(8).repeat(400, 1)
    x, counted = taken_apart(x0, 1.0, END, MARK, new_generator(0))
    seen = set()
    for row, own in zip(x.tolist(), counted.tolist(), strict=True):
        first, second = (at for at, token in enumerate(row) if token == MARK)
        before, behind, inner = row[:first], row[first + 1 : second], row[second + 1 : -1]
        assert before + inner + behind == list(range(8 - ADDED))
        assert row[-1] == END
        assert [at for at, one in enumerate(own) if not one] == [first, second]
        seen.add((len(before), len(inner)))
    assert seen == {(a, m) for a, m in itertools.product(range(6), range(6)) if a + m <= 5}


def test_no_middle_goes_on_behind_the_end_of_a_text():
    x0 = torch.tensor([[1, 2, END, 3, 4, 5, 6, 7]]).repeat(300, 1)
    for row in taken_apart(x0, 1.0, END, MARK, new_generator(0))[0].tolist():
        second = max(at for at, token in enumerate(row) if token == MARK)
        assert END not in row[second + 1 : -1]


def test_only_the_share_that_was_asked_for_is_taken_apart():
    x0 = torch.arange(8).repeat(4000, 1)
    x, counted = taken_apart(x0, 0.25, END, MARK, new_generator(0))
    apart = (x == MARK).any(1)
    assert apart.double().mean().item() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(x[~apart], x0[~apart])
    assert counted[~apart].all()
    assert torch.equal(taken_apart(x0, 0.0, END, MARK, new_generator(0))[0], x0)


def network(vocab: int, length: int) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(vocab, length, width=16, layers=2, heads=2, causal=True))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def test_the_loss_is_the_cross_entropy_of_all_but_the_marks():
    made, process = network(10, 8), Process(Schedule.round_robin(8, 8, 0.0, "left-to-right"), NoiseLaw.uniform(10))
    x0 = torch.randint(9, (6, 8), generator=new_generator(1))
    keyed = KeyedGenerator((0, 1), torch.arange(6), 6)
    loss = middle(made, process, x0, 0.5, END, generator=keyed)
    x, counted = taken_apart(x0, 0.5, END, made.begin, KeyedGenerator((0, 1), torch.arange(6), 6))
    logits = made(x, torch.zeros(6, dtype=torch.int64), torch.ones(6, 8, dtype=torch.float64), causal_rows=6)
    wanted = [
        torch.nn.functional.cross_entropy(logits[row, site], x[row, site])
        for row, site in itertools.product(range(6), range(8))
        if counted[row, site]
    ]
    assert loss.item() == pytest.approx(sum(wanted).item() / 48, rel=1e-5)
    whole = middle(made, process, x0, 0.0, END, generator=keyed)
    assert whole.item() == pytest.approx(causal(made, process, x0).item(), rel=1e-5)


def test_a_tiny_model_that_learned_the_middle_fills_it_with_what_stands_behind(tmp_path):
    """Rows of one letter: nothing stands before the middle, so that the left alone would be right once in four times."""
    codec = CharCodec("abcd")
    rows = torch.randint(4, (3000, 1), generator=new_generator(0)).expand(-1, 12).contiguous()
    data = Data(InMemory(rows[:2900]), InMemory(rows[2900:]), 5, 12, torch.ones(5), codec, "a letter a row")
    fast = {"lr": 5e-3, "warmup": 20, "grad_clip": 1.0, "ema_decay": 0.9, "evaluate_every": 150, "samples": 0}
    spec = TrainSpec(steps=150, batch=64, fim=0.5, **fast)
    run(replace(recipe("tiny"), method="ar", train=spec), data, tmp_path / "run", say=lambda words: None)
    sampler = load(tmp_path / "run").sampler()
    nothing, behind = torch.zeros(100, 0, dtype=torch.int64), torch.full((100, 5), 2)
    found = fill_middle(sampler, nothing, behind, codec.end, 3, new_generator(0))
    assert np.mean([fill == [2, 2, 2] for fill in found]) > 0.9
    free = fill_middle(sampler, nothing, behind, codec.end, generator=new_generator(0))
    assert np.mean([set(fill) <= {2} for fill in free]) > 0.9
    assert len({len(fill) for fill in free}) > 1
    assert max(map(len, free)) <= 12 - ADDED - 5 + 1
    with refused("the text leaves 0 of this model's 12 tokens"):
        fill_middle(sampler, torch.zeros(1, 6, dtype=torch.int64), torch.ones(1, 4, dtype=torch.int64), codec.end)


def test_a_share_that_is_none_and_data_without_an_end_are_refused():
    with refused(r"train.fim is a share of rows, in \[0, 1\], not 1.5"):
        TrainSpec(steps=1, batch=1, fim=1.5)
    process = Process(Schedule.round_robin(3, 3, 0.0, "left-to-right"), NoiseLaw.uniform(10))
    with refused("need more than 3 tokens, not 3"):
        middle(network(10, 3), process, torch.zeros(2, 3, dtype=torch.int64), 0.5, END)
    with refused("train.fim needs data with a codec"):
        spec = TrainSpec(steps=1, batch=1, fim=0.5)
        find_method("ar").loss(network(10, 8), process, torch.zeros(2, 8, dtype=torch.int64), LossOptions(spec=spec))
