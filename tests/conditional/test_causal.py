"""Networks that read: one pass answers for a whole sweep in reading order, whose chain is autoregressive generation.

The same weights look both ways when asked to.
"""

import hashlib
import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from driving import driver_step
from enumeration import KERNELS, World, chi_square, index, random_law
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import glauber
from glauber import (
    CallCounter,
    Model,
    NoiseLaw,
    Oracle,
    Process,
    Schedule,
    Transformer,
    TransformerConfig,
    bound,
    dense,
    run_chain,
)
from glauber.chain import bounds, driver
from glauber.codec import CharCodec
from glauber.conditional import Cache, CausalConditional, Denoiser
from glauber.data import open_shards, prepare
from glauber.method import find_method
from glauber.objective import causal, cross_entropy, masked
from glauber.objective.masked import MASKED
from glauber.process.draws import KeyedGenerator, digest
from glauber.train import Trainer, TrainSpec, recipe, train
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings, parse_settings

FALSE_ALARM = 1e-6
V, L = 3, 4
PI = np.array([0.2, 0.5, 0.3])
PROCESS = Process(Schedule.round_robin(L, L, keep=0.0, order="left-to-right"), NoiseLaw(torch.from_numpy(PI)))
WORLD = World(random_law(V**L, 3, 0.5), PI, [3, 2, 1, 0], [0.0] * L)
STATES = torch.from_numpy(WORLD.states)


def network(vocab: int = V, length: int = L, seed: int = 0, **shape: object) -> Transformer:
    """One that reads, in float64, with every parameter random."""
    settings = {"width": 16, "layers": 2, "heads": 2, "cond_dim": 8, "causal": True} | shape
    net = Transformer(TransformerConfig(vocab, length, **settings)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.3 * noise)
    return net.eval()


def clean(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the network is told of clean rows."""
    return x, torch.zeros(len(x), dtype=torch.int64), torch.ones(x.shape, dtype=torch.float64)


def rows(number: int, vocab: int = V, length: int = L, seed: int = 0) -> Tensor:
    return torch.randint(vocab, (number, length), generator=torch.Generator().manual_seed(seed))


def slots(net: Transformer, x: Tensor) -> Tensor:
    """The rows behind the first slot."""
    return F.pad(x, (1, 0), value=net.begin)


def log_law(net: Transformer) -> Tensor:
    """(N,) log of the product of the network's conditionals, for every state."""
    with torch.no_grad():
        law = net(*clean(STATES), causal_rows=len(STATES)).log_softmax(-1)
    return law.gather(-1, STATES[..., None]).squeeze(-1).sum(1)


# ---- the network

SHAPES = ({}, {"grid": (3, 3)}, {"grid": (3, 3), "learned_positions": True}, {"learned_positions": True})
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=["sequence", "grid", "grid-absolute", "learned_positions"])


@EVERY_SHAPE
@torch.no_grad()
def test_an_answer_of_a_row_that_is_read_depends_on_the_sites_before_it_and_on_no_other(shape):
    net, x = network(5, 9, **shape), rows(4, 5, 9)
    answer = net(*clean(x), causal_rows=4)
    for j in range(9):
        other = x.clone()
        other[:, j] = (x[:, j] + 1) % 5
        moved = (net(*clean(other), causal_rows=4) - answer).abs().amax(-1)  # (4, 9)
        assert (moved[:, : j + 1] == 0).all()
        assert (moved[:, j + 1 :] > 1e-6).all()


@torch.no_grad()
def test_rows_that_are_read_and_rows_that_are_not_get_in_one_call_what_they_get_in_two():
    net, x = network(5, 9), rows(6, 5, 9)
    x[4, 2], t = net.mask, torch.zeros(6, dtype=torch.int64)
    survival = torch.ones(6, 9, dtype=torch.float64)
    survival[3:] = torch.rand(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mixed = net(x, t, survival, causal_rows=3)
    torch.testing.assert_close(mixed[:3], net(x[:3], t[:3], survival[:3], causal_rows=3), rtol=0, atol=1e-12)
    torch.testing.assert_close(mixed[3:], net(x[3:], t[3:], survival[3:]), rtol=0, atol=1e-12)
    assert (mixed[:3] - net(x[:3], t[:3], survival[:3])).abs().amax((1, 2)).min() > 1e-3  # read or not is a difference


@EVERY_SHAPE
@torch.no_grad()
def test_the_same_weights_look_both_ways_and_never_at_the_asked_site(shape):
    net, x, site = network(5, 9, **shape), rows(4, 5, 9), torch.full((4, 1), 4)
    answer = Denoiser(net)(*clean(x), site)
    for j in range(9):
        other = x.clone()
        other[:, j] = (x[:, j] + 1) % 5
        moved = (Denoiser(net)(*clean(other), site) - answer).abs().amax((1, 2))
        assert ((moved > 1e-6) == (j != 4)).all()


@pytest.mark.parametrize("first", range(1, 10))
@EVERY_SHAPE
@torch.no_grad()
def test_reading_on_says_what_reading_at_once_says(first, shape):
    """A piece of any length, then slot by slot; the last slot has no site to answer for."""
    net, x = network(5, 9, **shape), rows(4, 5, 9)
    cache, whole = Cache(net, 4), net(*clean(x), causal_rows=4)
    for stop in range(first, 10):
        answer = net.extend(slots(net, x)[:, stop - 1 if cache.filled else 0 : stop], cache)
        assert cache.filled == stop
        torch.testing.assert_close(answer, whole[:, stop - 1], rtol=0, atol=1e-12)
    cache = Cache(net, 4)
    net.extend(slots(net, x)[:, :first], cache)
    for site in range(first, 9):  # by their numbers, as on a GPU
        answer = net.extend(slots(net, x)[:, [site]], cache, torch.tensor([site]))
        torch.testing.assert_close(answer, whole[:, site], rtol=0, atol=1e-12)


def test_what_cannot_be_read_is_refused():
    net, x = network(), rows(2)
    cache = Cache(net, 2)
    net.extend(slots(net, x)[:, :1], cache)
    with pytest.raises(ValueError, match="one slot at a time"):
        net.extend(slots(net, x)[:, 1:3], cache)
    plain = network(causal=False)
    for ask in (lambda: plain(*clean(x), causal_rows=2), lambda: plain.extend(x, Cache(plain, 2))):
        with pytest.raises(ValueError, match=r"set network\.causal=true"):
            ask()
    with pytest.raises(ValueError, match="a causal network is conditioned on the survival"):
        network(conditioning="time")


# ---- the causal conditional


class Counting:
    """A network that remembers how many slots each `extend` went over."""

    def __init__(self, net: Transformer):
        self.net, self.config, self.embed, self.begin = net, net.config, net.embed, net.begin
        self.read_slots: list[int] = []

    def extend(self, x: Tensor, cache: Cache, slot: Tensor | None = None) -> Tensor:
        self.read_slots.append(x.shape[1])
        return self.net.extend(x, cache, slot)


@torch.no_grad()
def test_a_causal_conditional_goes_on_where_the_beginning_is_the_same_and_starts_anew_where_it_is_not():
    net, x = network(5, 9), rows(3, 5, 9)
    counting = Counting(net)
    reader = CausalConditional(counting)

    def ask(x: Tensor, site: int) -> list[int]:
        """The slots gone over; the answer must be right."""
        counting.read_slots.clear()
        expected = net(*clean(x), causal_rows=len(x)).log_softmax(-1)[:, site]
        answer = reader(*clean(x), torch.full((len(x), 1), site))
        torch.testing.assert_close(answer[:, 0], expected, rtol=0, atol=1e-12)
        return counting.read_slots

    assert ask(x, 0) == [1]
    assert ask(x, 1) == [1]
    assert ask(x, 4) == [1, 1, 1]  # goes on by three
    assert ask(x, 4) == [5]  # asked again
    later = x.clone()
    later[:, 4:] = (x[:, 4:] + 1) % 5
    assert ask(later, 5) == [1]  # what stood at the asked site and after it was not read
    assert ask(x, 6) == [7]  # but now it has been
    assert ask(x, 2) == [3]  # back
    assert ask(x[1:], 3) == [1]  # without a row
    assert ask(x.flip(0)[:2], 4) == [5]  # with another one
    assert ask(x.flip(0), 3) == [4]


@EVERY_SHAPE
@torch.no_grad()
def test_read_together_slot_by_slot_the_answers_are_those_of_one_pass(shape):
    net, x = network(5, 9, **shape), rows(3, 5, 9)
    expected = net(*clean(x), causal_rows=len(x)).log_softmax(-1)
    together, cache = CausalConditional(net).together(len(x)), Cache(net, len(x))
    for site in range(9):
        later = torch.where(torch.arange(9) < site, x, (x + 1) % 5)  # what stands there and after is not looked at
        answer = together(*clean(later), torch.full((len(x), 1), site))
        torch.testing.assert_close(answer[:, 0], expected[:, site], rtol=0, atol=1e-12)
        answer = net.extend(slots(net, x)[:, [site]], cache, torch.tensor([site])).log_softmax(-1)  # as it is recorded on a GPU
        torch.testing.assert_close(answer, expected[:, site], rtol=0, atol=1e-12)


@EVERY_SHAPE
@torch.no_grad()
def test_reading_a_slot_by_its_number_is_the_same_work_for_every_slot(shape):
    """Traced once and repeated, as a recording is: all that differs between slots stands in tensors."""
    net, x = network(5, 9, **shape), rows(3, 5, 9)
    expected = net(*clean(x), causal_rows=len(x))
    token, slot, cache = slots(net, x)[:, :1].clone(), torch.zeros(1, dtype=torch.int64), Cache(net, len(x))
    repeat = make_fx(lambda: net.extend(token, cache, slot))()
    for site in range(9):
        token.copy_(slots(net, x)[:, [site]])
        slot.fill_(site)
        torch.testing.assert_close(repeat(), expected[:, site], rtol=0, atol=1e-12)


@torch.no_grad()
def test_keys_and_values_are_kept_in_the_precision_of_the_products():
    net, x = network(5, 9), rows(3, 5, 9)
    expected = net(*clean(x), causal_rows=len(x)).log_softmax(-1)
    with torch.autocast("cpu", torch.bfloat16):  # which leaves float64 alone
        assert Cache(network(5, 9).float(), 3).keys.dtype == torch.bfloat16
        together = CausalConditional(net).together(len(x))
        for site in range(9):
            answer = together(*clean(x), torch.full((len(x), 1), site))
            torch.testing.assert_close(answer[:, 0], expected[:, site], rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [2**24, 3 * 2 * 40])  # random numbers for all steps at once, or for three
@pytest.mark.parametrize("options", [{}, {"top_p": 0.8}, {"temperature": (1.5, 0.5)}, {"mark_noise": True}], ids=str)
def test_rows_read_together_become_what_each_step_by_itself_makes_of_them(options, window, monkeypatch):
    monkeypatch.setattr(driver, "WINDOW", window)
    net = network(5, 9)
    process = Process(Schedule.round_robin(9, 9, 0.0, "left-to-right"), NoiseLaw.uniform(5))
    counted, generator = CallCounter(CausalConditional(net)), lambda: torch.Generator().manual_seed(0)
    drawn = run_chain(counted, process, 40, generator=generator(), **options)
    steps = []
    seen = run_chain(
        CausalConditional(net), process, 40, generator=generator(), on_step=lambda t, x: steps.append(t), **options
    )
    assert torch.equal(drawn, seen)
    assert (counted.calls, counted.rows, len(steps)) == (9, 360, 10)
    # Where some sites are given, the others are still read given all before them.
    clamp, ignore = {0: 2, 4: 1}, lambda t, x: None
    some = [
        run_chain(CausalConditional(net), process, 40, clamp=clamp, generator=generator(), on_step=see)
        for see in (None, ignore)
    ]
    assert torch.equal(*some)
    assert bool((some[0][:, [0, 4]] == torch.tensor([2, 1])).all())


@pytest.mark.parametrize("part", [{"start": (rows(40, 5, 9), 5)}, {"num": 40, "stop": 4}], ids=["from the middle", "stopped"])
def test_a_part_of_a_causal_chain_is_that_of_one_step_after_the_other(part):
    net, process = network(5, 9), Process(Schedule.round_robin(9, 9, 0.0, "left-to-right"), NoiseLaw.uniform(5))
    own_pace, step_by_step = (
        run_chain(CausalConditional(net), process, generator=torch.Generator().manual_seed(0), on_step=see, **part)
        for see in (None, lambda t, x: None)
    )
    assert torch.equal(own_pace, step_by_step)


def test_a_causal_conditional_refuses_several_sites_and_rows_that_ask_about_different_ones():
    x = rows(2)
    for sites in ([[0, 1], [0, 1]], [[0], [1]]):
        with pytest.raises(ValueError, match="all rows together; use block 1"):
            CausalConditional(network())(*clean(x), torch.tensor(sites))


def test_only_a_sweep_from_the_last_site_to_the_first_that_noises_all_is_reading():
    assert PROCESS.schedule.causal
    assert PROCESS.to("cpu").schedule.causal
    others = [
        {"order": "right-to-left"},
        {"keep": 0.1},
        {"steps": 2 * L},
        {"block": 2},
        {"steps": L - 1},
        {"order": [3, 2, 0, 1]},
    ]
    for change in others:
        assert not Schedule.round_robin(**{"length": L, "steps": L, "keep": 0.0, "order": "left-to-right"} | change).causal
    assert Schedule.round_robin(L, L, keep="linear", order="left-to-right").causal


def test_a_network_trained_both_ways_reads_on_the_schedule_of_reading_alone():
    other = Process(Schedule.round_robin(L, L, keep=0.0), PROCESS.noise)
    assert isinstance(find_method("ggm").conditional(network(), PROCESS), CausalConditional)
    assert isinstance(find_method("ar").conditional(network(), PROCESS), CausalConditional)
    assert isinstance(find_method("ggm").conditional(network(), other), Denoiser)
    assert isinstance(find_method("ggm").conditional(network(causal=False), PROCESS), Denoiser)
    assert isinstance(find_method("mlm").conditional(network(), PROCESS), Denoiser)


# ---- the chain and its bound, enumerated


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_chain_of_a_causal_conditional_draws_from_the_product_of_the_networks_conditionals(kernel):
    """The real run_chain, its two uniforms integrated exactly; the product by one pass over every state."""
    net = network()
    with torch.no_grad():
        conditionals = net(*clean(STATES), causal_rows=len(STATES)).softmax(-1).numpy()
    law = WORLD.noise
    for t in reversed(range(L)):
        site = WORLD.sites[t]
        law = law @ driver_step(
            WORLD, PROCESS, CausalConditional(net), t, kernel, clean=[conditionals[:, site]], support=law > 0
        )
    np.testing.assert_allclose(law, log_law(net).exp().numpy(), rtol=0, atol=1e-9)


def test_samples_of_a_causal_conditional_follow_that_law_and_cost_one_pass():
    net = network()
    counting = Counting(net)
    x = run_chain(CausalConditional(counting), PROCESS, 4000, generator=torch.Generator().manual_seed(0))
    assert counting.read_slots == [1] * L
    counts = np.bincount(index(x.numpy(), V), minlength=V**L)
    assert chi_square(counts, log_law(net).exp().numpy()) > FALSE_ALARM


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_of_a_causal_conditional_is_the_likelihood_of_every_row_and_sums_to_one(kernel, monkeypatch):
    monkeypatch.setattr(bounds, "NUMBERS", 5 * L * V)  # a few rows at a time
    net, sizes = network(), []
    net.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    found = bounds.row_bounds(CausalConditional(net), PROCESS, STATES, (kernel,))[0]
    assert (max(sizes), sum(sizes)) == (5, len(STATES))
    torch.testing.assert_close(found, -log_law(net), rtol=0, atol=1e-12)
    assert (-found).exp().sum().item() == pytest.approx(1, abs=1e-12)
    result = bound(CausalConditional(net), PROCESS, STATES[5:7], kernel)
    assert (result.mean, result.calls, result.kernel) == (pytest.approx(found[5:7].mean().item()), 2, kernel)


class Plain:
    """The same answers from a conditional that is no Reader: a pass over the row for each site."""

    def __init__(self, net: Transformer):
        self.net = net

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        law = self.net(*clean(x), causal_rows=len(x)).log_softmax(-1)
        return law.gather(1, sites[..., None].expand(-1, -1, V))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_of_a_causal_conditional_is_the_one_that_goes_through_every_step(kernel):
    """With as many draws as steps each row visits each step once."""
    net = network()
    every_step = bounds.row_bounds(Plain(net), PROCESS, STATES, (kernel,), L, torch.Generator().manual_seed(0))[0]
    torch.testing.assert_close(
        bounds.row_bounds(CausalConditional(net), PROCESS, STATES, (kernel,))[0], every_step, rtol=0, atol=1e-10
    )


def test_the_bound_of_a_short_row_is_the_likelihood_of_its_beginning():
    """P(x_0 .. x_{n-1}), by summing over all that may follow."""
    net, n = network(), 2
    known = (torch.arange(L) < n).expand(len(STATES), -1)
    found = bounds.row_bounds(CausalConditional(net), PROCESS, STATES, known=known)[0]
    begun = torch.from_numpy(index(STATES[:, :n].numpy(), V))
    marginal = torch.zeros(V**n, dtype=torch.float64).index_add(0, begun, log_law(net).exp())
    torch.testing.assert_close((-found).exp(), marginal[begun], rtol=0, atol=1e-12)


def test_a_causal_conditional_has_no_bound_for_another_schedule():
    other = Process(Schedule.round_robin(L, L, keep=0.0), PROCESS.noise)
    with pytest.raises(ValueError, match="bound is that of one sweep, left to right"):
        bound(CausalConditional(network()), other, STATES)


# ---- the losses


def gradients(net: Transformer, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(net.parameters())))


def by_formula(net: Transformer, x: Tensor) -> Tensor:
    """(B, L, V) the logits of rows that are read: attention to the left by explicit weights, turns as complex numbers."""
    x = slots(net, x)
    added, c = net.condition(torch.ones(x.shape, dtype=torch.float64))
    h, (B, n), heads = net.embed(x) + added, x.shape, net.config.heads
    d = net.config.width // heads
    angle = torch.arange(n)[:, None].double() * 10_000.0 ** (-torch.arange(0, d, 2).double() / d)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    for block in net.blocks:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = block.modulation(c)[:, None].chunk(6, dim=-1)
        a = block.norm_attention(h) * (1 + scale_a) + shift_a
        q, k, v = (a @ block.qkv.weight.T).view(B, n, 3, heads, d).unbind(2)
        q, k = (torch.complex(*part.chunk(2, dim=-1)) * turn for part in (q, k))
        score = torch.einsum("bihd,bjhd->bhij", q, k.conj()).real / math.sqrt(d)
        weight = score.masked_fill(torch.arange(n) > torch.arange(n)[:, None], -torch.inf).softmax(-1)
        h = h + gate_a * (torch.einsum("bhij,bjhd->bihd", weight, v).flatten(2) @ block.out.weight.T)
        h = h + gate_m * block.mlp(block.norm_mlp(h) * (1 + scale_m) + shift_m)
    shift, scale = net.final_modulation(c)[:, None].chunk(2, dim=-1)
    return net.head(net.final_norm(h) * (1 + scale) + shift)[:, :-1]


@pytest.mark.parametrize("table", [1, 20, 10**6])
def test_the_reading_loss_and_its_gradients_are_those_of_the_formula(table, monkeypatch):
    """The mean of -log p, chunked (so many logits at a time) and not."""
    monkeypatch.setattr(cross_entropy, "TABLE", table)
    net, x = network(), rows(5)
    by_hand = -by_formula(net, x).log_softmax(-1).gather(-1, x[..., None]).mean()
    expected = gradients(net, by_hand)
    assert by_hand.item() == pytest.approx(bound(CausalConditional(net), PROCESS, x).mean / L, abs=1e-6)
    for chunked in (False, True):
        loss = causal(net, PROCESS, x, chunked)
        assert loss.item() == pytest.approx(by_hand.item(), abs=1e-6)
        for one, other in zip(gradients(net, loss), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)  # the tables of turns are float32


class Tabular:
    """A network that looks up its logits by what it may see: reading what stands before the site, else all but it.

    Args:
        logits: (L, (V + 1)^L, V), by site and by what it sees, masks included.
    """

    def __init__(self, logits: Tensor):
        self.logits = logits

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, causal_rows: int = 0) -> Tensor:
        answers = []
        for j in range(L):
            shown = x.clone()
            shown[:, j : L if causal_rows else j + 1] = V
            answers.append(self.logits[j, torch.from_numpy(index(shown.numpy(), V + 1))])
        return torch.stack(answers, dim=1)


def at_and_away(logits: Tensor, expected_loss) -> tuple[float, float]:
    """The greatest entry of the gradient of the expected loss at the given logits, and a random step away from them."""
    noise = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = []
    for theta in (logits.clone(), logits + 0.3 * noise):
        theta.requires_grad_()
        found.append(torch.autograd.grad(expected_loss(theta), theta)[0].abs().max().item())
    return found[0], found[1]


def test_the_reading_loss_has_zero_expected_gradient_at_the_true_conditionals_and_its_chain_is_then_the_data():
    table = torch.from_numpy(WORLD.table).view((V,) * L)
    logits = torch.zeros(L, (V + 1) ** L, V, dtype=torch.float64)
    for j in range(L):
        begun = table.sum(dim=tuple(range(j + 1, L))) if j < L - 1 else table  # P(x_0 .. x_j)
        prefix = F.pad(STATES[:, :j], (0, L - j), value=V)
        logits[j, torch.from_numpy(index(prefix.numpy(), V + 1))] = begun[tuple(STATES[:, i] for i in range(j))].log()

    def expected_loss(theta: Tensor) -> Tensor:
        losses = [causal(Tabular(theta), PROCESS, state[None]) for state in STATES]
        return torch.from_numpy(WORLD.table) @ torch.stack(losses)

    at, away = at_and_away(logits, expected_loss)
    assert at < 1e-12
    assert away > 1e-3
    nats = torch.stack([causal(Tabular(logits), PROCESS, state[None]) * L for state in STATES])
    np.testing.assert_allclose((-nats).exp().numpy(), WORLD.table, rtol=0, atol=1e-12)


class Given(KeyedGenerator):
    """Uniforms that are told."""

    def __init__(self, u: Tensor):
        super().__init__((0,), torch.arange(len(u)), len(u))
        self.told = u

    def uniform(self, shape) -> Tensor:
        assert tuple(shape) == tuple(self.told.shape)
        return self.told


def test_the_masked_loss_has_zero_expected_gradient_at_the_clean_conditional_and_no_other_labels():
    """Over every clean row and every set of masks, with free logits for every context and site."""
    oracle = Oracle(torch.from_numpy(WORLD.table).view((V,) * L), PROCESS.noise)
    hidden = torch.from_numpy(World(np.ones(2**L) / 2**L, [0.5, 0.5], [0], [0.5]).states).bool()  # (16, L)
    chance = (MASKED ** hidden.sum(1)) * (1 - MASKED) ** (~hidden).sum(1)
    shown = torch.where(hidden[:, None], V, STATES).flatten(0, 1)  # (16 · 81, L)
    logits = torch.zeros(L, (V + 1) ** L, V, dtype=torch.float64)
    for j in range(L):
        context = shown.clone()
        context[:, j] = V
        x, t, ones = clean(context)
        answer = oracle(x, t, torch.where(x == V, 0.0, ones), torch.full((len(x), 1), j))
        logits[j, torch.from_numpy(index(context.numpy(), V + 1))] = answer[:, 0]
    weight = torch.from_numpy(WORLD.table)

    def expected_loss(theta: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for pattern, share in zip(hidden, chance, strict=True):
            u = torch.where(pattern, 0.5 * MASKED, 0.5 * (1 + MASKED)).double()
            losses = [masked(Tabular(theta), PROCESS, state[None], generator=Given(u[None])) for state in STATES]
            total = total + share * (weight @ torch.stack(losses))
        return total

    at, away = at_and_away(logits, expected_loss)
    assert at < 1e-12
    assert away > 1e-4


def test_the_masked_loss_hides_15_percent_of_the_sites_and_counts_those_alone():
    seen: list[Tensor] = []
    logits = torch.randn(4000, 50, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def net(x: Tensor, t: Tensor, survival: Tensor) -> Tensor:
        seen.extend((x, survival))
        return logits

    process, x0 = Process(Schedule.round_robin(50, 50), PROCESS.noise), rows(4000, V, 50)
    loss = masked(net, process, x0, generator=torch.Generator().manual_seed(0))
    x, survival = seen
    hidden = x == V
    assert torch.equal(torch.where(hidden, V, x0), x)
    assert torch.equal(survival == 1, ~hidden)
    deviation = math.sqrt(0.15 * 0.85 / x.numel())
    assert abs(hidden.double().mean().item() - 0.15) < 5 * deviation
    nats = -logits.log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)
    assert loss.item() == pytest.approx((nats * hidden).sum().item() / x.numel())
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.equal((gradient != 0).any(-1), hidden)


def test_the_masked_loss_is_the_same_chunked_or_not():
    net, x = network(), rows(40)
    one, other = (masked(net, PROCESS, x, chunked, generator=torch.Generator().manual_seed(0)) for chunked in (False, True))
    assert one.item() == pytest.approx(other.item(), abs=1e-12)


# ---- both in one batch


DENSE = Process(Schedule.round_robin(L, 3 * L, keep="linear"), PROCESS.noise)


class Recording:
    """A network that keeps what it is shown."""

    def __init__(self, net: Transformer):
        self.net, self.shown = net, []

    def __call__(self, *inputs: Tensor, causal_rows: int = 0) -> Tensor:
        self.shown.append((*inputs, causal_rows))
        return self.net(*inputs, causal_rows=causal_rows)


@pytest.mark.parametrize("every", [2, 4])
@pytest.mark.parametrize("parts", [[[0, 1, 2, 3], [4, 5, 6, 7]], [[4, 5, 6, 7], [0, 1, 2, 3]]])
def test_a_batch_of_both_is_the_mean_of_its_parts_and_shows_the_same_rows(every, parts):
    net, x0 = Recording(network()), rows(8)

    def loss(which: list[int]) -> float:
        draws = KeyedGenerator((3, 7), torch.tensor(which), 8)
        return dense(net, DENSE, x0[which], marked_fraction=0.3, causal_every=every, generator=draws).item()

    whole = loss(list(range(8)))
    assert whole == pytest.approx(sum(map(loss, parts)) / 2, abs=1e-12)
    (all_x, all_t, all_survival, number), *split = net.shown
    assert number == 8 // every
    together = sorted(map(str, torch.cat([all_x, all_t[:, None], all_survival], 1).tolist()))
    apart = [torch.cat([x, t[:, None], survival], 1) for x, t, survival, _ in split]
    assert together == sorted(map(str, torch.cat(apart).tolist()))


@pytest.mark.parametrize("every", [2, 4])
def test_a_batch_of_both_is_the_mean_over_all_sites_of_the_losses_of_its_rows(every):
    """Those read by the network's -log p of the row with holes, the others by their own dense loss."""
    net, x0 = network(), rows(8)
    recording = Recording(net)
    loss = dense(recording, DENSE, x0, causal_every=every, generator=KeyedGenerator((0, 0), torch.arange(8), 8))
    ((x, t, survival, number),) = recording.shown
    read, others = x0[::every], x0.view(-1, every, L)[:, 1:].flatten(0, 1)
    assert torch.equal(torch.where(x[:number] == V, read, x[:number]), read)
    nats = -net(x[:number], t[:number], survival[:number], causal_rows=number).log_softmax(-1).gather(-1, read[..., None]).sum()
    own = KeyedGenerator((0, 0), torch.arange(8), 8).without_every(every)
    rest = dense(net, DENSE, others, generator=own) * others.numel()
    assert loss.item() == pytest.approx((nats + rest).item() / x0.numel(), abs=1e-12)
    chunked = dense(net, DENSE, x0, causal_every=every, chunked=True, generator=KeyedGenerator((0, 0), torch.arange(8), 8))
    assert chunked.item() == pytest.approx(loss.item(), abs=1e-12)


def test_half_of_the_rows_that_are_read_are_whole_and_the_others_have_holes_that_say_so():
    """Of 2000 rows; 5 standard errors. A row with holes lacks a share of them that is uniform up to 0.6."""
    long = Process(Schedule.round_robin(40, 40), PROCESS.noise)
    recording = Recording(lambda x, t, survival, causal_rows: torch.zeros(*x.shape, V))
    dense(recording, long, rows(4000, V, 40), causal_every=2, generator=torch.Generator().manual_seed(0))
    ((x, _, survival, number),) = recording.shown
    holes = x[:number] == V
    assert torch.equal(survival[:number], (~holes).double())
    share = holes.double().mean(1)
    # P(no hole) = 1/2 + the chance that a row with a share s of holes has none of them, 1/2 E (1-s)^40.
    none = 0.5 + 0.5 * (1 - 0.4**41) / (0.6 * 41)
    assert abs((share == 0).double().mean().item() - none) < 5 * math.sqrt(none * (1 - none) / number)
    assert abs(share.mean().item() - 0.15) < 5 * 0.2 / math.sqrt(number)
    assert share.max() < 0.6 + 5 * math.sqrt(0.24 / 40)


@pytest.mark.parametrize("every", [2, 4])
def test_the_times_of_the_rows_that_are_not_read_fall_into_each_stratum_once(every):
    """Of a schedule whose times are all alike."""
    count = 24 - 24 // every
    process = Process(Schedule.round_robin(L, count * L, keep=1.0), PROCESS.noise)
    recording = Recording(network())
    dense(recording, process, rows(24), causal_every=every, generator=KeyedGenerator((1, 2), torch.arange(24), 24))
    ((_, t, _, number),) = recording.shown
    assert (t[:number] == 0).all()
    assert (t[number:] // L).tolist() == list(range(count))


@pytest.mark.parametrize(("total", "every"), [(8, 2), (8, 4), (12, 3), (600, 2)])
def test_rows_that_are_read_and_rows_that_are_not_have_random_numbers_of_their_own(total, every):
    draws = KeyedGenerator((5, 6), torch.arange(total), total)
    read, others = draws.every(every), draws.without_every(every)
    assert (len(read.rows), len(others.rows)) == (read.total, others.total) == (total // every, total - total // every)
    assert sorted(others.rows.tolist()) == list(range(others.total))  # so that the strata of their times are whole
    numbers = [each.uniform((len(each.rows), 3)).flatten() for each in (read, others)]
    assert len(torch.cat(numbers).unique()) == 3 * total


def test_rows_that_cannot_be_shared_out_are_refused():
    for every, number in ((2, 7), (3, 8), (1, 8), (-2, 8)):
        with pytest.raises(ValueError, match="causal_every is 0, or a number above 1 that divides"):
            dense(network(), DENSE, rows(number), causal_every=every)
    with pytest.raises(ValueError, match=r"set network\.causal=true"):
        dense(network(causal=False), DENSE, rows(8), causal_every=2)


# ---- random numbers, a second time in whole numbers without a limit


def finalised(z: int) -> int:
    """SplitMix64's finaliser."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & (1 << 64) - 1
    return z ^ (z >> 31)


def hashed(start: int, *numbers: int) -> int:
    for number in numbers:
        start = finalised((start + (number + 1) * 0x9E3779B97F4A7C15) % 2**64)
    return start


def test_the_digest_of_a_key_and_the_numbers_under_it_are_those_of_their_formula():
    for key in [(0, 0), (7, 123456), (2**40, 3), (5,), (1, 2, 3)]:
        expected = hashed(0, *key)
        assert digest(key) % 2**64 == expected
        assert -(2**63) <= digest(key) < 2**63
        rows = [0, 3, 11]
        for name in (key, torch.tensor(digest(key))):
            draws = KeyedGenerator(name, torch.tensor(rows), 12)
            for before in range(3):
                streams = [hashed(expected, row) + (before + 1) * 0x9E3779B97F4A7C15 for row in rows]
                bits = [[hashed(finalised(stream % 2**64), place) for place in range(4)] for stream in streams]
                wanted = torch.tensor([[(number >> 11) / 2**53 for number in row] for row in bits], dtype=torch.float64)
                assert torch.equal(draws.uniform((3, 2, 2)), wanted.view(3, 2, 2))


# ---- training


@pytest.mark.parametrize(("method", "options"), [("ar", {}), ("mlm", {}), ("ggm", {"causal_every": 2, "marked_fraction": 0.3})])
def test_a_batch_cut_into_parts_trains_the_same_weights(method, options):
    spec = TrainSpec(steps=10, batch=16, warmup=2, grad_clip=0.5, **options)
    nets = [network(seed=1) for _ in range(3)]
    trainers = [
        Trainer(net, DENSE, InMemory(rows(64)), replace(spec, grad_accum=parts), method)
        for net, parts in zip(nets, (1, 2, 8), strict=True)
    ]
    for _ in range(10):
        first, *others = (trainer.advance().item() for trainer in trainers)
        assert others == pytest.approx([first] * 2, rel=1e-11)
    for net in nets[1:]:
        for one, other in zip(nets[0].parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_trainer_reads_and_labels_as_its_settings_say():
    """Labelled rows have survivals of 0 and 1 only; a schedule that keeps half has others in every row that is not."""
    process = Process(Schedule.round_robin(L, 2 * L, keep=0.5), PROCESS.noise)
    shown: list[tuple[Tensor, int]] = []
    for settings in ({}, {"causal_every": 4}, {"marked_fraction": 1.0}, {"causal_every": 4, "marked_fraction": 1.0}):
        net = network()
        net.register_forward_pre_hook(lambda _, x, more: shown.append((x[2], more["causal_rows"])), with_kwargs=True)
        Trainer(net, process, InMemory(rows(64)), TrainSpec(steps=1, batch=32, **settings)).advance()
    assert [causal_rows for _, causal_rows in shown] == [0, 8, 0, 8]
    certain = [bool(((survival == 0) | (survival == 1))[causal_rows:].all()) for survival, causal_rows in shown]
    assert certain == [False, False, True, True]


def test_a_small_network_learns_to_read_the_law_of_its_data():
    """All four sites agree, so a row costs log 3, and the entropy is the least that any model can reach."""
    alike = torch.arange(90)[:, None] % V + torch.zeros(90, L, dtype=torch.int64)
    torch.manual_seed(0)
    net = Transformer(TransformerConfig(V, L, 16, layers=1, heads=2, cond_dim=16, causal=True))
    spec = TrainSpec(steps=150, batch=30, lr=1e-2, warmup=10, ema_decay=0.9)
    trained = train(net, PROCESS, alike, spec, "ar").network
    assert math.log(3) <= bound(CausalConditional(trained), PROCESS, alike).mean < 1.1 * math.log(3)


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        ({"causal_every": 1}, r"train\.causal_every"),
        ({"causal_every": -2}, r"train\.causal_every"),
        ({"marked_fraction": 1.5}, r"clean_fraction and train.marked_fraction"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, about):
    with pytest.raises(ValueError, match=about):
        TrainSpec(steps=1, batch=2, **wrong)


def test_settings_that_fit_only_together_may_be_given_in_any_order():
    for words in (["network.width=20", "network.heads=5"], ["network.heads=5", "network.width=20"]):
        assert apply_settings(recipe("tiny"), parse_settings(words)).network.width == 20


def test_a_method_changes_the_objective_and_the_chain_and_leaves_the_rest():
    plan = recipe("novels")
    assert find_method(plan.method).resolve(plan) == plan
    ar, mlm = (find_method(name).resolve(replace(plan, method=name)) for name in ("ar", "mlm"))
    assert ar.process.build(3, L, torch.ones(3)).schedule.causal
    assert (ar.method, ar.network.causal, mlm.method) == ("ar", True, "mlm")
    assert ar.train == mlm.train == plan.train
    assert find_method("ar").resolve(ar) == ar


# ---- from shards to a model, as a user does it


SETTINGS = ["train.steps=20", "train.batch=8", "train.checkpoint_every=5", "network.width=16", "train.evaluate_every=10"]
STORY = "the cat sat on the mat and the dog sat on the log. "


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return commands.glauber(*arguments)


def done(*arguments: object) -> str:
    result = command(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def training(data: Path, out: Path, method: str, *more: object, base: str = "tiny") -> list[object]:
    sets = [f"--set={setting}" for setting in [f"method={method}", *SETTINGS, *more]]
    return ["train", "--recipe", base, "--data", data, "--out", out, *sets]


def require_refused(result: subprocess.CompletedProcess[str], about: str) -> None:
    assert result.returncode == 2, result
    assert about in result.stderr
    assert result.stderr.count("\n") == 1, "one sentence on one line"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text(STORY * 200)
    prepare([folder / "a.txt"], folder / "shards", "char", 16, progress=False)
    return folder / "shards"


@pytest.fixture(scope="module")
def ar(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ar") / "run"
    assert "done: 20 steps" in done(*training(data, out, "ar"))
    return out


def test_an_autoregressive_model_is_trained_sampled_and_scored_exactly(ar, data):
    model = glauber.load(ar)
    assert (model.method.name, model.network.config.causal, model.process.schedule.causal) == ("ar", True, True)
    found = json.loads(done("sample", ar, "-n", 2, "--seed", 3, "--json"))
    assert found["tokens"] == model.sample_tokens(2, seed=3).tolist()
    score = json.loads(done("score", ar, data, "--json"))
    tokens = torch.from_numpy(open_shards(data).rows("valid")[:])
    assert (score["rows"], score["calls"]) == (len(tokens), len(tokens))  # one call for each row
    with torch.no_grad():
        law = model.network(*clean(tokens), causal_rows=len(tokens)).double().log_softmax(-1)
    bits = -law.gather(-1, tokens[..., None]).sum().item() / math.log(2) / tokens.numel()
    assert [each["bits_per_token"] for each in score["bounds"].values()] == pytest.approx([bits] * 2, rel=1e-9)
    last = json.loads((ar / "log.jsonl").read_text().splitlines()[-1])
    assert last["valid_bits_per_token"] == pytest.approx(bits, rel=1e-4)
    assert json.loads((ar / "config.json").read_text())["recipe"]["method"] == "ar"


def test_an_autoregressive_model_fills_no_gaps_and_runs_on_no_other_schedule(ar):
    require_refused(command("infill", ar, "--text", "the [[3]] sat"), "an autoregressive model looks to the left alone")
    require_refused(command("sample", ar, "--sweeps", 4), "runs on its own schedule alone")


def test_an_autoregressive_run_that_was_stopped_goes_on_to_the_same_weights(ar, data, tmp_path):
    out = tmp_path / "run"
    done(*training(data, out, "ar", "train.steps=10", "train.decay=20"))
    done("train", "--out", out, "--resume", "--set=train.steps=20")
    done(*training(data, tmp_path / "straight", "ar", "train.decay=20"))
    files = [(folder / "model" / "model.safetensors").read_bytes() for folder in (out, tmp_path / "straight", ar)]
    assert len({hashlib.sha256(content).hexdigest() for content in files}) == 1


def test_a_masked_language_model_is_trained_and_sampled_by_gibbs(data, tmp_path):
    out = tmp_path / "run"
    done(*training(data, out, "mlm"))
    model = glauber.load(out)
    schedule = model.process.schedule
    assert (model.method.name, schedule.sweeps, set(schedule.keep.tolist())) == ("mlm", 4, {1.0})
    found = json.loads(done("sample", out, "-n", 1, "--seed", 3, "--json"))
    by_hand = run_chain(Denoiser(model.network), model.process, 1, generator=torch.Generator().manual_seed(3))
    assert found["tokens"] == by_hand.tolist()
    assert "sat" in done("infill", out, "--text", "the [[3]] sat", "--seed", 0)


@pytest.mark.parametrize(
    ("more", "about"),
    [
        (["bert"], "method is one of ggm, ggm-marginal, ggm-binary, ar, mlm"),
        (["ar", "network.conditioning=time"], "a causal network is conditioned on the survival"),
        (["ggm", "train.causal_every=2"], "network.causal=true"),
        (["ggm", "network.causal=true", "train.causal_every=3"], "train.causal_every is 3, which does not divide the 8 rows"),
        (["ggm", "network.causal=true", "train.causal_every=4", "train.grad_accum=4"], "the 2 rows"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(data, tmp_path, more, about):
    require_refused(command(*training(data, tmp_path / "run", *more)), about)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def hybrid(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe of the bundled language model, made small."""
    out = tmp_path_factory.mktemp("novels") / "run"
    small = ["network.width=32", "network.layers=1", "network.heads=2", "train.precision=fp32"]
    done(*training(data, out, "ggm", *small, base="novels"))
    return out


def test_a_model_of_both_kinds_reads_in_one_sweep_from_left_to_right(hybrid, data):
    model = glauber.load(hybrid)
    assert (model.method.name, model.network.config.causal) == ("ggm", True)
    process = Process(Schedule.round_robin(16, 16, keep=0.0, order="left-to-right"), model.process.noise)
    assert (model.trained.sweeps, model.process.schedule.to_dict()) == (4, process.schedule.to_dict())
    by_hand = run_chain(CausalConditional(model.network), process, 3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(model.sample_tokens(3, seed=5), by_hand)  # unless told otherwise, though it was trained on four sweeps
    assert torch.equal(model.sample_tokens(3, seed=5, sweeps=1, order="left-to-right"), by_hand)
    score = json.loads(done("score", hybrid, data, "--json"))
    assert score["calls"] == score["rows"]
    tokens = torch.from_numpy(open_shards(data).rows("valid")[:])
    exact = CausalConditional(model.network).rows(tokens).sum().item() / -math.log(2) / tokens.numel()
    assert score["bounds"]["reversal"]["bits_per_token"] == pytest.approx(exact, rel=1e-9)
    last = json.loads((hybrid / "log.jsonl").read_text().splitlines()[-1])
    assert last["valid_bits_per_token_causal"] == pytest.approx(exact, rel=1e-4)
    assert f"causal {exact:.4f}" in done("info", hybrid)
    four = json.loads(done("score", hybrid, data, "--sweeps", 4, "--draws", 2, "--json"))
    assert four["calls"] == 2 * len(tokens)


@pytest.fixture
def both() -> Model:
    """Every parameter random, so that reading and looking both ways differ much."""
    codec = CharCodec("".join(sorted(set(STORY))))
    process = Process(Schedule.round_robin(8, 16, keep="linear"), NoiseLaw.uniform(codec.vocab))
    return Model(network(codec.vocab, 8).float(), process, codec)


@pytest.mark.parametrize(
    "options",
    [{}, {"sweeps": 1}, {"sweeps": 2, "order": "left-to-right"}, {"sweeps": 1, "order": "left-to-right", "block": 2}],
    ids=str,
)
def test_on_other_schedules_a_model_of_both_kinds_looks_both_ways(both, options):
    process = Process(both.sampler(**options).schedule, both.process.noise)
    by_hand = run_chain(Denoiser(both.network), process, 3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(both.sample_tokens(3, seed=5, **options), by_hand)


def test_with_tokens_given_a_model_of_both_kinds_looks_both_ways(both):
    one = {"sweeps": 1, "order": "left-to-right"}
    process = Process(both.sampler(**one).schedule, both.process.noise)
    clamp = {6: 2, 7: 1}
    by_hand = [
        run_chain(make(both.network), process, 20, clamp=clamp, generator=torch.Generator().manual_seed(5))
        for make in (Denoiser, CausalConditional)
    ]
    assert torch.equal(both.sample_tokens(20, seed=5, clamp=clamp, **one), by_hand[0])
    assert not torch.equal(by_hand[0], by_hand[1])
    read = run_chain(CausalConditional(both.network), process, 20, generator=torch.Generator().manual_seed(5))
    assert torch.equal(both.sample_tokens(20, seed=5, **one), read)
    text = both.infill("the[[2]]sa", seed=0, **one)
    assert text.startswith("the")
    assert text.endswith("sa")
    assert len(text) == 7


def test_a_model_of_both_kinds_is_the_same_once_saved_and_loaded(both, tmp_path):
    loaded = glauber.load(both.save(tmp_path / "model"))
    for options in ({}, {"sweeps": 1, "order": "left-to-right"}):
        assert torch.equal(loaded.sample_tokens(3, seed=1, **options), both.sample_tokens(3, seed=1, **options))
