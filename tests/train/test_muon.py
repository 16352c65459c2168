"""Muon is what its formula says, moves what it should, and forgets nothing when a run is stopped."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from glauber.conditional import Transformer, TransformerConfig
from glauber.process import NoiseLaw, Process, Schedule
from glauber.train import RECIPES, Trainer, TrainSpec, recipe
from glauber.train.in_memory import InMemory
from glauber.train.muon import COEFFICIENTS, STEPS, Muon, make_optimizers, newton_schulz

PROCESS = Process(Schedule.round_robin(4, 8, keep="linear"), NoiseLaw.uniform(3))
SPEC = TrainSpec(steps=20, batch=8, lr=1e-2, warmup=2, weight_decay=0.1, optimizer="muon")
ROWS = InMemory(torch.randint(3, (64, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 4))


def network(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(vocab=3, length=4, width=16, layers=2, heads=2, cond_dim=16))


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (6, 6)])
def test_newton_schulz_applies_its_polynomial_to_the_singular_values_and_leaves_the_vectors(shape):
    matrices = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (a, b, c), found = COEFFICIENTS, newton_schulz(matrices)
    for matrix, made in zip(matrices, found, strict=True):
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        s = s / s.norm()
        for _ in range(STEPS):
            s = a * s + b * s**3 + c * s**5
        torch.testing.assert_close(made, u @ torch.diag(s) @ v, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(24, 8), (8, 24), (16, 16)])
def test_each_step_is_that_of_torch_within_its_rounding_to_bfloat16(shape):
    """torch's own rounds the polynomial to bfloat16 everywhere; ours does on a GPU alone."""
    generator = torch.Generator().manual_seed(1)
    ours, theirs = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.zeros(shape))
    mine = Muon([ours], lr=0.01, weight_decay=0.1)
    other = torch.optim.Muon([theirs], lr=0.01, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(12):
        gradient, before = torch.randn(shape, generator=generator), ours.detach().clone()
        with torch.no_grad():
            theirs.copy_(ours)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step()
        other.step()
        apart = (ours - theirs).norm() / (ours - before).norm()
        assert apart < 0.03
    torch.testing.assert_close(mine.state[ours]["momentum"], other.state[theirs]["momentum_buffer"])


def test_matrices_of_one_shape_move_together_as_they_would_alone():
    generator = torch.Generator().manual_seed(2)
    shapes = [(6, 4), (4, 6), (6, 4), (6, 4)]
    together = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    alone = [nn.Parameter(parameter.detach().clone()) for parameter in together]
    for one, other in zip(together, alone, strict=True):
        one.grad = torch.randn(one.shape, generator=generator)
        other.grad = one.grad.clone()
    Muon(together, lr=0.1).step()
    for parameter in alone:
        Muon([parameter], lr=0.1).step()
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_matrices_that_are_stacked_move_as_they_would_alone():
    """Queries, keys and values are three products, made as one."""
    generator = torch.Generator().manual_seed(3)
    stacked, gradient = (torch.randn(2, 12, 4, generator=generator)).unbind()
    whole, parts = nn.Parameter(stacked.clone()), [nn.Parameter(part.clone()) for part in stacked.chunk(3)]
    whole.grad = gradient.clone()
    for parameter, part in zip(parts, gradient.chunk(3), strict=True):
        parameter.grad = part.clone()
    Muon([{"params": [whole], "stacked": 3}], lr=0.1).step()
    Muon(parts, lr=0.1).step()
    torch.testing.assert_close(whole, nn.Parameter(torch.cat([part.detach() for part in parts])), rtol=0, atol=1e-6)


def test_muon_moves_the_products_of_the_blocks_and_adamw_all_else():
    net = network()
    adamw, muon = make_optimizers(net, SPEC, 0.1, graphed=False)
    assert isinstance(muon, Muon)
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    moved = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    assert {names[id(p)].split(".")[2] for p in muon.param_groups[1]["params"]} == {"qkv"}
    assert muon.param_groups[1]["stacked"] == 3
    parts = ("qkv", "out", "mlp.0", "mlp.2")
    assert moved == {f"blocks.{k}.{part}.weight" for k in range(2) for part in parts}
    assert {names[id(p)] for p in adamw.param_groups[0]["params"]} == set(names.values()) - moved
    (only,) = make_optimizers(net, replace(SPEC, optimizer="adamw"), 0.1, graphed=False)
    assert len(only.param_groups[0]["params"]) == len(names)


def test_a_trainer_that_is_stopped_goes_on_to_the_same_weights():
    straight, halfway = Trainer(network(), PROCESS, ROWS, SPEC), Trainer(network(), PROCESS, ROWS, SPEC)
    for _ in range(12):
        straight.advance()
    for _ in range(5):
        halfway.advance()
    tensors, numbers = halfway.state()
    assert sum(name.endswith("/momentum") for name in tensors["optimizer"]) == 8
    resumed = Trainer(network(seed=5), PROCESS, ROWS, SPEC)
    resumed.load_state({part: {k: v.clone() for k, v in named.items()} for part, named in tensors.items()}, numbers)
    for _ in range(7):
        resumed.advance()
    for one, other in zip(straight.state()[0].values(), resumed.state()[0].values(), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one | other)


def test_a_checkpoint_of_the_other_optimiser_is_refused():
    trainer = Trainer(network(), PROCESS, ROWS, SPEC)
    trainer.advance()
    tensors, numbers = trainer.state()
    with pytest.raises(ValueError, match="another optimiser"):
        Trainer(network(), PROCESS, ROWS, replace(SPEC, optimizer="adamw")).load_state(tensors, numbers)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("paper-")])
def test_the_paper_s_recipes_keep_adamw(name):
    assert recipe(name).train.optimizer == "adamw"


def test_what_is_no_matrix_and_an_unknown_optimiser_are_refused():
    with pytest.raises(ValueError, match="for matrices"):
        Muon([nn.Parameter(torch.zeros(3))], lr=0.1)
    with pytest.raises(ValueError, match=r"train\.optimizer is adamw or muon, not 'sgd'"):
        replace(SPEC, optimizer="sgd")
