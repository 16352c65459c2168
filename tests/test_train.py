"""The training loop, the average of the weights, and the recipes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from glauber import NoiseLaw, Process, Schedule, Transformer, TransformerConfig, bound
from glauber.conditional import Denoiser
from glauber.train import RECIPES, ProcessSpec, TrainSpec, learning_rate, recipe, train
from glauber.train.average import Average

SPEC = TrainSpec(steps=60, batch=32, rate=5e-3, warmup=10, ema=0.9)
PROCESS = Process(Schedule.round_robin(4, 8, keep=[0.5, 0.4]), NoiseLaw.uniform(3))


def network(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(vocab=3, length=4, width=16, layers=1, heads=2, cond=16))


def all_alike(rows: int) -> torch.Tensor:
    """Rows in which every site agrees: log2(3) bits each."""
    return torch.randint(3, (rows, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 4).contiguous()


@pytest.mark.parametrize("objective", ["dense", "marginal", "binary"])
def test_the_same_seed_trains_the_same_weights_and_another_does_not(objective):
    one, two, other = (train(network(), PROCESS, all_alike(64), SPEC, objective, seed) for seed in (1, 1, 2))
    assert one.losses == two.losses != other.losses
    for a, b in zip(one.network.parameters(), two.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_brings_the_bound_near_the_entropy_of_the_data():
    process = Process(Schedule.round_robin(4, 8, keep="linear"), NoiseLaw.uniform(3))
    start = network()
    before = bound(Denoiser(start), process, all_alike(256), draws=8, generator=torch.Generator().manual_seed(0))
    trained = train(start, process, all_alike(64), replace(SPEC, steps=400, batch=64))
    after = bound(Denoiser(trained.network), process, all_alike(256), draws=8, generator=torch.Generator().manual_seed(0))
    assert before.mean > 4 * math.log(3) - 0.2  # knows nothing: every site costs log 3
    assert after.mean < 1.35 * math.log(3)  # the row costs little more than its one choice
    assert after.mean > math.log(3) - 5 * after.error


def test_the_learning_rate_warms_up_from_0_falls_by_a_cosine_and_then_is_constant():
    spec = TrainSpec(steps=1000, batch=1, rate=1.0, final_rate=0.1, warmup=100, decay=500)
    assert [learning_rate(step, spec) for step in (0, 50, 100)] == [0.0, 0.5, 1.0]
    assert learning_rate(300, spec) == pytest.approx(0.55)
    assert learning_rate(200, spec) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)
    assert [learning_rate(step, spec) for step in (500, 501, 999)] == pytest.approx([0.1] * 3)
    assert learning_rate(999, replace(spec, decay=None)) == pytest.approx(0.1, abs=1e-5)


def test_the_average_follows_the_recursion_and_forgets_its_start():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 5.0)
    average, by_hand = Average(model, 0.9), 5.0
    for n in range(100):
        nn.init.constant_(model.weight, float(n % 7))
        average.update(model)
        decay = min(0.9, (1 + n) / (10 + n))
        by_hand = decay * by_hand + (1 - decay) * (n % 7)
    assert average.network.weight.item() == pytest.approx(by_hand, rel=1e-5)
    assert not average.network.weight.requires_grad


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_its_network_and_process(name):
    plan = recipe(name)
    shape = plan.network
    with torch.device("meta"):
        Transformer(shape)
    process = plan.process.build(shape.vocab, shape.length, torch.ones(shape.vocab))
    assert (process.vocab, process.length, process.schedule.steps) == (shape.vocab, shape.length, plan.process.steps)
    assert plan.name == name


def test_a_unigram_law_needs_counts():
    with pytest.raises(ValueError, match="needs the counts"):
        ProcessSpec(steps=8, noise="unigram").build(3, 4)
