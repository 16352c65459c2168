"""The network: what reaches an answer and what cannot, positions, initialisation, size, and the two adapters."""

import math

import pytest
import torch
from refusals import refused
from torch import Tensor

from glauber import Classifier, Denoiser, NoiseLaw, Process, Schedule, Transformer, TransformerConfig, dense
from glauber.conditional.transformer import rotary_tables, rotate

V, L, B = 5, 12, 4
KINDS = [("survival", None, False), ("survival", (3, 4), True), ("time", None, True), ("time", (3, 4), False)]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))


def fresh(conditioning: str = "survival", grid: tuple[int, int] | None = None, learned_positions: bool = False) -> Transformer:
    """A small network as it starts."""
    config = TransformerConfig(
        V, L, 16, layers=2, heads=2, conditioning=conditioning, grid=grid, learned_positions=learned_positions, cond_dim=8
    )
    return Transformer(config)


def network(
    conditioning: str = "survival", grid: tuple[int, int] | None = None, learned_positions: bool = False
) -> Transformer:
    """The same with every parameter random, those that start at zero included."""
    net = fresh(conditioning, grid, learned_positions)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.2 * noise)
    return net.eval()


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows x, times t, and survivals strictly between 0 and 1."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(V, (B, L), generator=g)
    t = torch.randint(40, (B,), generator=g)
    return x, t, 0.1 + 0.8 * torch.rand(B, L, dtype=torch.float64, generator=g)


def asked(count: int, seed: int = 0) -> Tensor:
    """(B, count) different sites per row."""
    return torch.rand(B, L, generator=torch.Generator().manual_seed(seed)).argsort(1)[:, :count]


@kinds
@pytest.mark.parametrize("count", [1, 3])
@torch.no_grad()
def test_what_stands_at_the_asked_sites_never_reaches_their_logits(kind, count):
    net, (x, t, survival), sites = network(*kind), batch(), asked(count)
    answer = net(x, t, survival, sites)
    for shift in range(1, V):
        other = x.scatter(1, sites, (x.gather(1, sites) + shift) % V)
        assert torch.equal(net(other, t, survival, sites), answer)
    assert torch.equal(net(x.scatter(1, sites, net.mask), t, survival, sites), answer)
    for value in (0.0, 0.3, 1.0):
        assert torch.equal(net(x, t, survival.scatter(1, sites, value), sites), answer)


@kinds
@torch.no_grad()
def test_every_site_that_is_not_asked_reaches_the_answer(kind):
    net, (x, t, survival), sites = network(*kind), batch(), asked(1)
    answer = net(x, t, survival, sites)
    for j in range(L):
        other = x.clone()
        other[:, j] = (x[:, j] + 1) % V
        moved = (net(other, t, survival, sites) - answer).abs().amax((1, 2)) > 1e-4
        assert torch.equal(moved, sites[:, 0] != j)


@kinds
@torch.no_grad()
def test_answers_at_asked_sites_are_those_of_the_full_pass_on_the_masked_input(kind):
    net, (x, t, survival), sites = network(*kind), batch(), asked(3)
    full = net(x.scatter(1, sites, net.mask), t, survival)
    assert full.shape == (B, L, V)
    wanted = torch.stack([full[row, sites[row]] for row in range(B)])
    torch.testing.assert_close(net(x, t, survival, sites), wanted, atol=1e-5, rtol=1e-5)


@kinds
@torch.no_grad()
def test_the_full_pass_masks_nothing(kind):
    net, (x, t, survival) = network(*kind), batch()
    other = x.clone()
    other[:, 5] = (x[:, 5] + 1) % V
    assert ((net(other, t, survival) - net(x, t, survival))[:, 5].abs() > 1e-4).any(1).all()


@kinds
@torch.no_grad()
def test_sites_asked_together_are_left_out_of_each_others_condition(kind):
    net, (x, t, survival), sites = network(*kind), batch(), asked(2)
    first, second = sites[:, :1], sites[:, 1:]
    other = x.scatter(1, second, (x.gather(1, second) + 1) % V)
    assert torch.equal(net(other, t, survival, sites), net(x, t, survival, sites))
    alone, moved = net(x, t, survival, first), net(other, t, survival, first)
    assert (alone - moved).abs().amax((1, 2)).min() > 1e-4  # asked alone, the other site is evidence
    masked = net(x.scatter(1, second, net.mask), t, survival, first)
    torch.testing.assert_close(net(x, t, survival, sites)[:, :1], masked, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("grid", [None, (3, 4)])
@torch.no_grad()
def test_a_site_of_survival_zero_looks_like_a_mask(grid):
    net, (x, t, survival), noise = network(grid=grid), batch(), asked(4, seed=1)
    dead = survival.scatter(1, noise, 0.0)
    sites = asked(2, seed=2)
    for answer in (lambda x, s: net(x, t, s), lambda x, s: net(x, t, s, sites)):
        masked = answer(x.scatter(1, noise, net.mask), dead)
        assert torch.equal(answer(x, dead), masked)
        assert torch.equal(answer(x.scatter(1, noise, net.mask), survival), masked)  # a mask has no survival of its own
        assert torch.equal(answer(x.scatter(1, noise, (x.gather(1, noise) + 1) % V), dead), masked)
        assert not torch.allclose(answer(x, survival.scatter(1, noise, 0.01)), masked, atol=1e-4)


@torch.no_grad()
def test_survival_conditioning_reads_the_survival_of_each_site_and_not_the_time():
    net, (x, t, survival), sites = network("survival"), batch(), asked(1)
    answer = net(x, t, survival, sites)
    assert torch.equal(net(x, t + 1, survival, sites), answer)
    for j in range(L):
        other = survival.clone()
        other[:, j] = 1.0
        moved = (net(x, t, other, sites) - answer).abs().amax((1, 2)) > 1e-4
        assert torch.equal(moved, sites[:, 0] != j)


@torch.no_grad()
def test_time_conditioning_reads_the_time_of_each_row_and_not_the_survival():
    net, (x, t, survival), sites = network("time"), batch(), asked(1)
    answer = net(x, t, survival, sites)
    assert torch.equal(net(x, t, torch.zeros_like(survival), sites), answer)
    later = t + torch.tensor([0, 1, 0, 7])
    moved = (net(x, later, survival, sites) - answer).abs().amax((1, 2)) > 1e-4
    assert moved.tolist() == [False, True, False, True]


def turned(h: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """Rotary positions as complex numbers, one pair and one site at a time: (..., length, width) → (..., length, width/2)."""
    length, width = h.shape[-2:]
    pairs = torch.complex(h[..., : width // 2].double(), h[..., width // 2 :].double())
    result = torch.empty_like(pairs)
    for site in range(length):
        for k in range(width // 2):
            if grid is None:
                angle = site * 10_000 ** (-2 * k / width)
            elif k < width // 4:
                angle = (site // grid[1]) * 10_000 ** (-2 * k / (width // 2))
            else:
                angle = (site % grid[1]) * 10_000 ** (-2 * (k - width // 4) / (width // 2))
            result[..., site, k] = pairs[..., site, k] * complex(math.cos(angle), math.sin(angle))
    return result


@pytest.mark.parametrize(("length", "width", "grid"), [(12, 8, None), (300, 2, None), (12, 8, (3, 4)), (12, 4, (4, 3))])
def test_rotary_positions_multiply_each_channel_pair_by_a_complex_number_of_modulus_one(length, width, grid):
    h = torch.randn(2, length, width, generator=torch.Generator().manual_seed(0))
    ours = rotate(h, *rotary_tables(length, width, grid))
    theirs = turned(h, grid)
    torch.testing.assert_close(ours, torch.cat([theirs.real, theirs.imag], dim=-1).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("grid", [None, (5, 7)])
def test_rotary_products_depend_only_on_the_relative_offset(grid):
    length, width = 35, 8
    g = torch.Generator().manual_seed(1)
    q, k = torch.randn(2, width, generator=g, dtype=torch.float64)
    tables = rotary_tables(length, width, grid)
    products = rotate(q.expand(length, -1), *tables) @ rotate(k.expand(length, -1), *tables).T  # (site of q, site of k)
    seen: dict[tuple[int, int], float] = {}
    for m in range(length):
        for n in range(length):
            offset = (m - n, 0) if grid is None else (m // grid[1] - n // grid[1], m % grid[1] - n % grid[1])
            assert products[m, n].item() == pytest.approx(seen.setdefault(offset, products[m, n].item()), abs=1e-5)
    assert products.std() > 0.1  # and they do depend on it
    assert seen[(0, 0)] == pytest.approx((q @ k).item(), abs=1e-5)


def reference(net: Transformer, x: Tensor, t: Tensor, survival: Tensor) -> Tensor:
    """The full pass once more, in float64 and from the formulas, on an input without masks."""
    parameter = {name: value.double() for name, value in net.state_dict().items()}
    config = net.config

    def linear(name: str, h: Tensor) -> Tensor:
        return h @ parameter[f"{name}.weight"].T + parameter.get(f"{name}.bias", torch.zeros(()))

    def silu(h: Tensor) -> Tensor:
        return h / (1 + torch.exp(-h))

    def gelu(h: Tensor) -> Tensor:
        return h / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))

    def norm(name: str, h: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        centred = h - h.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * parameter[name] * (1 + scale) + shift

    h = parameter["embed.weight"][x]
    if config.conditioning == "time":
        angle = t[:, None] * torch.tensor([10_000 ** (-k / 128) for k in range(128)], dtype=torch.float64)
        c = silu(linear("condition.second", silu(linear("condition.first", torch.cat([angle.cos(), angle.sin()], -1)))))
    else:
        angles = [survival * math.pi * 2**k for k in range(8)]
        odds = (survival.clamp(1e-4, 1 - 1e-4) / (1 - survival.clamp(1e-4, 1 - 1e-4))).log() / 8
        ends = [(survival == 0).double(), (survival == 1).double()]
        features = torch.stack([*(a.cos() for a in angles), *(a.sin() for a in angles), odds, *ends], -1)
        hidden = silu(linear("condition.features", features))
        h = h + linear("condition.per_site", hidden)
        c = silu(linear("condition.overall", hidden.mean(1)))
    if config.learned_positions:
        h = h + parameter["position_embedding"]
    rows, length, heads, width = *x.shape, config.heads, config.width // config.heads
    for layer in range(config.layers):
        name = f"blocks.{layer}"
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = linear(f"{name}.modulation", c)[:, None].chunk(6, -1)
        inner = linear(f"{name}.qkv", norm(f"{name}.norm_attention.weight", h, shift_a, scale_a))
        q, k, v = inner.view(rows, length, 3, heads, width).permute(2, 0, 3, 1, 4)
        scores = (turned(q, config.grid).conj() @ turned(k, config.grid).mT).real / width**0.5
        mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(rows, length, config.width)
        h = h + gate_a * linear(f"{name}.out", mixed)
        inner = linear(f"{name}.mlp.0", norm(f"{name}.norm_mlp.weight", h, shift_m, scale_m))
        h = h + gate_m * linear(f"{name}.mlp.2", gelu(inner))
    shift, scale = linear("final_modulation", c)[:, None].chunk(2, -1)
    return linear("head", norm("final_norm.weight", h, shift, scale))


@kinds
@torch.no_grad()
def test_the_network_is_the_one_of_the_formulas(kind):
    net, (x, t, survival) = network(*kind), batch()
    survival[:, 3], survival[:, 4] = 1.0, 1e-6
    torch.testing.assert_close(net(x, t, survival).double(), reference(net, x, t, survival), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("grid", [None, (3, 4)])
@torch.no_grad()
def test_only_a_learned_place_tells_sites_apart_that_look_alike(grid):
    _, t, survival = batch()
    x = torch.full((B, L), V)
    for learned_positions in (False, True):
        answer = network("survival", grid, learned_positions)(x, t, survival)
        spread = (answer - answer[:, :1]).abs().amax(-1)[:, 1:]
        assert spread.min() > 1e-3 if learned_positions else spread.max() < 1e-5


@kinds
@torch.no_grad()
def test_at_initialisation_blocks_are_the_identity_and_the_answer_is_uniform(kind):
    net = fresh(*kind)
    h, c = torch.randn(B, L, 16), torch.randn(B, 8)
    for block in net.blocks:
        assert torch.equal(block(h, c, net.cos, net.sin), h)
    x, t, survival = batch()
    assert torch.equal(net(x, t, survival), torch.zeros(B, L, V))
    law = Denoiser(net)(x, t, survival, asked(2)).exp()
    torch.testing.assert_close(law, torch.full((B, 2, V), 1 / V, dtype=torch.float64), atol=1e-15, rtol=0)


@kinds
@torch.no_grad()
def test_rows_do_not_see_each_other(kind):
    net, (x, t, survival), sites = network(*kind), batch(), asked(2)
    answer = net(x, t, survival, sites)
    mixed = torch.tensor([2, 0, 3, 1])
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(net(x[mixed], t[mixed], survival[mixed], sites[mixed]), answer[mixed], **close)
    padding = [torch.cat([part, part.flip(0)]) for part in (x, t, survival, sites)]
    torch.testing.assert_close(net(*padding)[:B], answer, **close)
    for row in range(B):
        one = slice(row, row + 1)
        torch.testing.assert_close(net(x[one], t[one], survival[one], sites[one]), answer[one], **close)


@torch.no_grad()
def test_the_order_of_the_asked_sites_is_the_order_of_the_answers():
    net, (x, t, survival), sites = network(), batch(), asked(3)
    torch.testing.assert_close(net(x, t, survival, sites.flip(1)), net(x, t, survival, sites).flip(1), atol=1e-5, rtol=1e-5)


def test_the_papers_network_has_387_272_292_parameters():
    with torch.device("meta"):
        net = Transformer(TransformerConfig(32_100, 1024, width=1024, layers=24, heads=16, conditioning="time", cond_dim=128))
    assert sum(parameter.numel() for parameter in net.parameters()) == 387_272_292


@pytest.mark.parametrize("length", [L - 1, L + 1, 1])
def test_another_length_is_refused(length):
    x, t = torch.zeros(2, length, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    with refused(f"length {L}, got {length}"):
        network()(x, t, torch.ones(2, length), None)


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"vocab": 1}, "vocabulary"),
        ({"length": 0}, "positive length"),
        ({"layers": 0}, "positive"),
        ({"heads": 3}, "multiple"),
        ({"width": 18, "heads": 2, "grid": (3, 4)}, "multiple of 4"),
        ({"conditioning": "noise"}, "'survival' or 'time'"),
        ({"grid": (3, 3)}, "3×3 does not hold 12"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(settings, about):
    with refused(about):
        TransformerConfig(**{"vocab": V, "length": L, "width": 16, "heads": 2} | settings)


@kinds
@torch.no_grad()
def test_bfloat16_answers_are_those_of_float32_but_for_rounding(kind):
    net, (x, t, survival), sites = network(*kind), batch(), asked(2)
    full = net(x, t, survival, sites)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = net(x, t, survival, sites)
    half = net.bfloat16()(x, t, survival, sites)
    for rounded in (cast, half):
        assert rounded.dtype == torch.bfloat16
        assert (rounded.float() - full).abs().max() < 0.05 * full.abs().max()


@kinds
def test_every_parameter_and_every_site_gets_a_gradient(kind):
    net, (x, t, survival) = network(*kind), batch()
    x[:, 0] = net.mask
    x[0, 1:6] = torch.arange(5)
    net(x, t, survival).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().amax(-1).min() > 0, name


def test_a_denoiser_answers_normalised_float64_log_probabilities():
    net, (x, t, survival), sites = network(), batch(), asked(3)
    with torch.no_grad():
        logits, answer = net(x, t, survival, sites), Denoiser(net)(x, t, survival, sites)
    assert answer.dtype == torch.float64
    torch.testing.assert_close(answer.exp().sum(-1), torch.ones(B, 3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(answer - answer[..., :1], (logits - logits[..., :1]).double(), atol=1e-5, rtol=0)


def test_a_classifier_answers_the_papers_formula_renormalised():
    net, (x, _, survival) = network("time"), batch()
    keep = torch.linspace(0.2, 0.8, 2 * L, dtype=torch.float64)
    process = Process(Schedule.round_robin(L, 2 * L, keep), NoiseLaw.unigram([5, 1, 2, 0, 3]))
    t = torch.tensor([0, 5, L, 2 * L - 1])
    sites = process.schedule.sites(t)
    with torch.no_grad():
        law = Classifier(net, process).step_law(x, t, survival, sites).exp()
        y = net(x, t, survival, sites).double().sigmoid()
    assert law.dtype == torch.float64
    for row in range(B):
        kappa = keep[t[row]]
        p = (1 - kappa) * process.noise.probs / kappa * (1 / y[row, 0] - 1)
        torch.testing.assert_close(law[row, 0], p / p.sum(), atol=1e-12, rtol=1e-9)


def test_a_small_network_learns_that_all_sites_agree():
    length, vocab = 4, 3
    g = torch.Generator().manual_seed(0)
    process = Process(Schedule.round_robin(length, 2 * length, "linear"), NoiseLaw.uniform(vocab))
    torch.manual_seed(0)
    net = Transformer(TransformerConfig(vocab, length, width=32, layers=1, heads=2, cond_dim=16))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(120):
        x0 = torch.randint(2, (64, 1), generator=g).expand(-1, length).contiguous()  # 0000 or 1111, never a 2
        optimiser.zero_grad()
        dense(net, process, x0, generator=g).backward()
        optimiser.step()
    x = torch.tensor([[0] * length, [1] * length])
    sites = torch.tensor([[0], [2]])
    with torch.no_grad():
        law = Denoiser(net)(x, torch.zeros(2, dtype=torch.int64), torch.ones(2, length, dtype=torch.float64), sites).exp()
    assert law[0, 0, 0] > 0.95
    assert law[1, 0, 1] > 0.95
