"""The training loop, the average of the weights, and the recipes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

from glauber import NoiseLaw, Process, Schedule, Transformer, TransformerConfig, bound
from glauber.conditional import Denoiser
from glauber.method import LossOptions, find_method
from glauber.process.draws import KeyedGenerator
from glauber.train import RECIPES, ProcessSpec, Trainer, TrainSpec, learning_rate, recipe, train
from glauber.train.ema import EMA
from glauber.train.in_memory import InMemory
from glauber.train.order import shuffled

SPEC = TrainSpec(steps=60, batch=32, lr=5e-3, warmup=10, ema_decay=0.9)
PROCESS = Process(Schedule.round_robin(4, 8, keep=[0.5, 0.4]), NoiseLaw.uniform(3))


def network(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(vocab=3, length=4, width=16, layers=1, heads=2, cond_dim=16))


def all_alike(rows: int) -> torch.Tensor:
    """Rows in which every site agrees: log2(3) bits each."""
    return torch.randint(3, (rows, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 4).contiguous()


@pytest.mark.parametrize("method", ["ggm", "ggm-marginal", "ggm-binary"])
def test_the_same_seed_trains_the_same_weights_and_another_does_not(method):
    one, two, other = (train(network(), PROCESS, all_alike(64), replace(SPEC, seed=seed), method) for seed in (1, 1, 2))
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
    spec = TrainSpec(steps=1000, batch=1, lr=1.0, min_lr=0.1, warmup=100, decay=500)
    assert [learning_rate(step, spec) for step in (0, 50, 100)] == [0.0, 0.5, 1.0]
    assert learning_rate(300, spec) == pytest.approx(0.55)
    assert learning_rate(200, spec) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)
    assert [learning_rate(step, spec) for step in (500, 501, 999)] == pytest.approx([0.1] * 3)
    assert learning_rate(999, replace(spec, decay=None)) == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize("warmup", [True, False])
def test_the_average_follows_the_recursion_and_forgets_its_start_sooner_where_it_is_warmed_up(warmup):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 5.0)
    average, by_hand = EMA(model, 0.9, warmup), 5.0
    for n in range(100):
        nn.init.constant_(model.weight, float(n % 7))
        average.update(list(model.parameters()), average.next_weight())
        decay = min(0.9, (1 + n) / (10 + n)) if warmup else 0.9
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
    assert (process.vocab, process.length, process.schedule.sweeps) == (shape.vocab, shape.length, plan.process.sweeps)
    assert plan.name == name


def test_a_unigram_law_needs_counts():
    with pytest.raises(ValueError, match="needs the counts"):
        ProcessSpec(noise="unigram").build(3, 4)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_an_epoch_reads_every_row_once_in_an_order_of_its_own(size):
    orders = [shuffled(np.arange(size), size, (0, epoch)) for epoch in range(3)]
    for order in orders:
        assert sorted(order) == list(range(size))
    if size > 10:
        assert not np.array_equal(orders[0], orders[1])
        assert abs(np.corrcoef(orders[0], np.arange(size))[0, 1]) < 5 / size**0.5


def test_a_trainer_reads_each_row_once_per_epoch_also_across_a_batch_that_spans_two():
    trainer = Trainer(network(), PROCESS, InMemory(torch.arange(10)[:, None] % 3 + torch.zeros(10, 4, dtype=torch.int64)), SPEC)
    seen: list[int] = []

    class Recorder:
        def __len__(self):
            return 10

        def __getitem__(self, index):
            seen.extend(index.tolist())
            return np.zeros((len(index), 4), dtype=np.int64)

    trainer.rows = Recorder()
    for trainer.step in range(5):  # 5 × 32 rows = 16 epochs of 10
        trainer.batch()
    for epoch in range(16):
        assert sorted(seen[10 * epoch : 10 * epoch + 10]) == list(range(10))
    assert len({tuple(seen[10 * epoch : 10 * epoch + 10]) for epoch in range(16)}) > 10  # each in an order of its own


LOSSES = ["ggm", "ggm-marginal", "ggm-binary"]


@pytest.mark.parametrize("method", LOSSES)
def test_keyed_losses_of_a_batch_are_the_mean_of_those_of_its_parts(method):
    """Randomness is a function of (seed, step, row), so a batch may be split over processes as one likes."""
    x0, net = all_alike(12), network()
    nn.init.normal_(net.head.weight)

    def loss(rows: list[int], step: int = 7) -> float:
        how = LossOptions(generator=KeyedGenerator((3, step), torch.tensor(rows), 12))
        return find_method(method).loss(net, PROCESS, x0[rows], how).item()

    whole = loss(list(range(12)))
    assert whole == pytest.approx((loss([0, 1, 2, 3]) * 4 + loss([11, 5, 7, 4, 6, 8, 10, 9]) * 8) / 12, rel=1e-6)
    assert whole != pytest.approx(loss(list(range(12)), step=8), rel=1e-3)


@pytest.mark.parametrize("parts", [2, 8, 32])
@pytest.mark.parametrize("method", LOSSES)
def test_a_batch_cut_into_parts_trains_the_same_weights(method, parts):
    """In float64, where only the order of the sums differs: 20 steps."""
    spec = replace(SPEC, timesteps=3, grad_clip=0.5)
    nets, rows = [network().double(), network().double()], InMemory(all_alike(64))
    specs = [spec, replace(spec, grad_accum=parts)]
    trainers = [Trainer(net, PROCESS, rows, each, method) for net, each in zip(nets, specs, strict=True)]
    shown: list[int] = []
    nets[1].register_forward_pre_hook(lambda module, arguments: shown.append(len(arguments[0])))
    for _ in range(20):
        one, other = (trainer.advance().item() for trainer in trainers)
        assert one == pytest.approx(other, rel=1e-12)
    assert set(shown) == {32 // parts * (1 if method == "ggm" else 3)}
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_parts_must_be_equal():
    with pytest.raises(ValueError, match=r"train\.grad_accum is 5, .* 32 rows of a step; set train\.batch to a multiple of 5"):
        train(network(), PROCESS, all_alike(64), replace(SPEC, grad_accum=5))


def test_keyed_numbers_are_uniform_and_independent():
    """Kolmogorov-Smirnov at 1e-6 for each; correlations of neighbours in every direction within 5 standard errors."""
    draws = torch.stack([KeyedGenerator((seed, 0), torch.arange(50), 50).uniform((50, 40)) for seed in range(50)])
    again = KeyedGenerator((0, 0), torch.arange(50), 50)
    first, second = again.uniform((50, 40)), again.uniform((50, 40))
    assert torch.equal(first, draws[0])
    flat = draws.flatten().numpy()
    assert scipy.stats.kstest(flat, "uniform").pvalue > 1e-6
    assert 0 <= flat.min() < 1e-3
    assert 1 - 1e-3 < flat.max() < 1
    pairs = [(draws[1:], draws[:-1]), (draws[:, 1:], draws[:, :-1]), (draws[..., 1:], draws[..., :-1]), (first, second)]
    for one, other in pairs:
        correlation = np.corrcoef(one.flatten().numpy(), other.flatten().numpy())[0, 1]
        assert abs(correlation) < 5 / one.numel() ** 0.5


def test_a_stopped_trainer_goes_on_to_the_same_weights():
    straight = Trainer(network(), PROCESS, InMemory(all_alike(64)), SPEC)
    for _ in range(20):
        straight.advance()
    halfway = Trainer(network(), PROCESS, InMemory(all_alike(64)), SPEC)
    for _ in range(9):
        halfway.advance()
    tensors, numbers = halfway.state()
    resumed = Trainer(network(seed=5), PROCESS, InMemory(all_alike(64)), SPEC)
    resumed.load_state({part: {k: v.clone() for k, v in named.items()} for part, named in tensors.items()}, numbers)
    for _ in range(11):
        resumed.advance()
    for one, other in zip(straight.state()[0].values(), resumed.state()[0].values(), strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def seen_by(net: Transformer, method: str, spec: TrainSpec = SPEC) -> list[tuple[torch.Tensor, ...]]:
    """What the network is shown in the first step: (x, t, survival)."""
    shown = []
    net.register_forward_pre_hook(lambda module, arguments: shown.append(arguments[:3]))
    Trainer(net, PROCESS, InMemory(all_alike(64)), spec, method).advance()
    return shown


def test_a_network_told_only_the_time_is_trained_on_what_the_time_tells():
    """Survival is the schedule's own but for the masks; a network told the survival sees other orders, too."""
    config = TransformerConfig(vocab=3, length=4, width=16, layers=1, heads=2, cond_dim=16, conditioning="time")
    for net, own in ((Transformer(config), True), (network(), False)):
        ((x, t, survival),) = seen_by(net, "ggm")
        same = (survival == PROCESS.schedule.survival(t)) | (x == 3)
        assert bool(same.all()) == own


def test_the_paper_losses_draw_several_times_per_example():
    ((x, _, _),) = seen_by(network(), "ggm-binary", replace(SPEC, timesteps=5))
    assert len(x) == 5 * SPEC.batch


def test_training_returns_the_average_and_not_the_last_weights():
    net = network()
    trained = train(net, PROCESS, all_alike(64), SPEC)
    assert trained.network is not net
    assert not torch.equal(trained.network.head.weight, net.head.weight)


@pytest.mark.parametrize(
    "change", [{"grad_clip": 1e-3}, {"weight_decay": 0.5}, {"lr": 1e-3}, {"betas": (0.5, 0.9)}, {"ema_decay": 0.5}], ids=str
)
def test_every_setting_of_the_optimiser_reaches_the_weights(change):
    plain, changed = (train(network(), PROCESS, all_alike(64), replace(SPEC, eps=1e-2, **more)) for more in ({}, change))
    assert not torch.equal(plain.network.head.weight, changed.network.head.weight)


def test_the_gradient_of_all_weights_together_is_clipped_and_keeps_its_direction(monkeypatch):
    gradients = []
    for clip in (None, 1e-3):
        trainer = Trainer(network(), PROCESS, InMemory(all_alike(64)), replace(SPEC, grad_clip=clip))
        (optimizer,) = trainer.optimizers

        def step(trainer=trainer):
            gradients.append(torch.cat([p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None]).double())

        monkeypatch.setattr(optimizer, "step", step)
        trainer.advance()
    whole, clipped = gradients
    assert whole.norm() > 0.01
    torch.testing.assert_close(clipped, whole * (1e-3 / whole.norm()), rtol=1e-3, atol=1e-12)


def test_the_rate_of_each_step_is_that_of_the_schedule():
    trainer = Trainer(network(), PROCESS, InMemory(all_alike(64)), SPEC)
    for step in range(20):
        trainer.advance()
        assert trainer.optimizers[0].param_groups[0]["lr"] == learning_rate(step, SPEC)


@pytest.mark.parametrize(
    ("method", "tokens", "about"),
    [
        ("ggn", torch.zeros(4, 4, dtype=torch.int64), "method is one of .*, not 'ggn'"),
        ("dense", torch.zeros(0, 4, dtype=torch.int64), "no rows"),
        ("dense", torch.full((4, 4), 3), "tokens must lie in"),
        ("dense", torch.zeros(4, 5, dtype=torch.int64), "expected tokens of shape"),
    ],
)
def test_data_and_objectives_that_do_not_fit_are_refused(method, tokens, about):
    with pytest.raises(ValueError, match=about):
        train(network(), PROCESS, tokens, SPEC, method)


def test_settings_that_make_no_sense_are_refused():
    wrong = {"batch": 0, "timesteps": 0, "precision": "fp8", "seconds": 0.0, "steps": 0, "grad_accum": 0, "samples": -1}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=r"train\."):
            replace(SPEC, **{name: value})
