"""A network that is in bfloat16 for a while answers as autocast makes it answer, and comes back whole."""

import copy
import threading

import pytest
import torch
from refusals import refused

from glauber import Model, NoiseLaw, Process, Schedule, load
from glauber.chain import driver
from glauber.conditional import Transformer, TransformerConfig
from glauber.method import find_method
from glauber.runtime import runners
from glauber.runtime.compile import compiled
from glauber.runtime.precision import bfloat16

V, L = 7, 12


@pytest.fixture
def net():
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(V, L, width=32, layers=2, heads=2, cond_dim=8)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


@torch.no_grad()
def test_matrices_rounded_once_answer_as_those_that_are_rounded_in_each_call(net):
    x, t, survival, sites = torch.randint(V, (4, L)), torch.zeros(4), torch.rand(4, L).double(), torch.randint(L, (4, 2))
    full = net(x, t, survival, sites)
    with torch.autocast("cpu", torch.bfloat16):
        each_call = net(x, t, survival, sites)
    with bfloat16(net):
        once = net(x, t, survival, sites)
    assert once.dtype == torch.bfloat16
    assert torch.equal(once, each_call)
    assert not torch.equal(once.float(), full)
    assert torch.equal(net(x, t, survival, sites), full)


def test_the_weights_come_back_to_the_bit_even_after_an_error(net):
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(ValueError, match="length 12"), bfloat16(net):
        net(torch.zeros(1, L + 1, dtype=torch.long), torch.zeros(1), torch.zeros(1, L + 1))
    after = net.state_dict()
    assert all(torch.equal(after[name], tensor) and after[name].dtype == tensor.dtype for name, tensor in before.items())


def test_the_last_of_several_users_makes_the_weights_whole_again(net):
    layer, whole, before = net.blocks[0].qkv, net.blocks[0].qkv.weight, net.blocks[0].qkv.weight.clone()
    came, may_go = threading.Event(), threading.Event()

    def use():
        with bfloat16(net):
            came.set()
            may_go.wait()

    other = threading.Thread(target=use)
    other.start()
    came.wait()
    with bfloat16(net):
        rounded = layer.weight
        may_go.set()
        other.join()
        assert layer.weight is rounded  # it may be part of something recorded
        assert rounded.dtype == torch.bfloat16
    assert layer.weight is whole
    assert torch.equal(whole, before)


def test_weights_stay_the_same_parameters_with_their_gradients_and_those_who_wait_for_them(net):
    parameters, weight, told = dict(net.named_parameters()), net.blocks[0].qkv.weight, []
    waiting = weight.view_as(weight).grad_fn.next_functions[0][0]  # where those who train in parallel wait
    waiting.register_hook(lambda *_: told.append(1))
    x, t, survival = torch.randint(V, (4, L)), torch.zeros(4), torch.rand(4, L).double()
    net(x, t, survival).sum().backward()
    once = weight.grad.clone()
    with torch.no_grad(), bfloat16(net):
        net(x, t, survival)
    assert all(parameters[name] is parameter and parameter.requires_grad for name, parameter in net.named_parameters())
    net(x, t, survival).sum().backward()
    torch.testing.assert_close(weight.grad, 2 * once)
    assert len(told) == 2


def test_a_model_is_not_saved_while_its_weights_are_rounded(tmp_path):
    made = model()
    made.precision = "bf16"
    with refused("save it afterwards"):
        made.sample_tokens(1, seed=0, on_step=lambda t, x: made.save(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
    made.save(tmp_path / "model")
    before, after = made.state_dict(), load(tmp_path / "model").state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_a_copy_of_a_model_keeps_its_precision_and_the_networks_weights():
    made = model()
    made.precision = "bf16"
    other = copy.deepcopy(made)
    assert torch.equal(other.sample_tokens(5, seed=0), made.sample_tokens(5, seed=0))
    assert other.precision == "bf16"
    other.load_state_dict(model().state_dict())
    assert other.precision == "bf16"


def model(method="ggm", **network):
    made = find_method(method).network(TransformerConfig(V, L, width=32, layers=2, heads=2, cond_dim=8, **network))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(parameter.numel()))
    keep = 0.5 if method == "ggm-binary" else 0.0
    return Model(made, Process(Schedule.round_robin(L, L, keep, "left-to-right"), NoiseLaw.uniform(V)), method=method)


MODELS = {
    "ggm": {},
    "ggm, causal": {"causal": True},
    "ggm-binary": {"method": "ggm-binary", "conditioning": "time"},
    **{name: {"method": name} for name in ("mdlm", "sedd", "sedd-uniform", "udlm", "plaid")},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_samples_in_its_precision_and_scores_in_float32(name):
    made, x0 = model(**MODELS[name]), torch.randint(V, (3, L), generator=torch.Generator().manual_seed(0))
    single, scored = made.sample_tokens(50, seed=0), made.score(x0)
    made.precision = "fp32"
    assert torch.equal(made.sample_tokens(50, seed=0), single)  # as it is by itself on a CPU
    made.precision = "bf16"
    low = made.sample_tokens(50, seed=0)
    assert not torch.equal(low, single)
    if name not in ("plaid", "udlm", "sedd-uniform"):  # where all sites change at once, little differences grow
        assert (low == single).double().mean() > 0.5
    assert made.score(x0) == scored
    assert made.network.blocks[0].qkv.weight.dtype == torch.float32


def test_a_model_that_was_cast_as_a_whole_stays_so():
    made = model().double()
    single = made.sample_tokens(5, seed=0)
    made.precision = "bf16"
    assert torch.equal(made.sample_tokens(5, seed=0), single)


def test_another_precision_is_refused():
    with refused("fp32 or bf16"):
        load("novels", precision="fp16")


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # which importing the compiler says
def test_a_network_is_compiled_for_a_while_and_then_as_it_was(net):
    with compiled(net):
        assert net.compiled
        assert net.blocks[1]._compiled_call_impl is not None
        with compiled(net):
            pass
        assert net.compiled  # by the one outside
    assert not net.compiled
    assert all(block._compiled_call_impl is None for block in net.blocks)
    net.compile_parts()  # by the user, for good
    with pytest.raises(KeyError), compiled(net):
        raise KeyError
    assert net.compiled
    assert net.blocks[1]._compiled_call_impl is not None


def test_a_chain_compiles_the_network_if_it_is_long_and_not_for_float32(net, monkeypatch):
    process, x = Process(Schedule.round_robin(L, 2 * L, 0.5, block=2), NoiseLaw.uniform(V)), torch.zeros(10, L)
    calls = driver._calls(process, range(2 * L - 2, -1, -2))
    assert calls == L / 2 * (1 + 3 / 4)  # each of two sites survives its first visit half of the time; one is enough
    products = calls * 10 * L * sum(parameter.numel() for parameter in net.blocks.parameters())
    for limit, pays in ((0.99 * products, True), (1.01 * products, False)):
        monkeypatch.setattr(runners, "COMPILED", limit)
        assert not runners.pays_compiled(net, x, calls)
        with torch.autocast("cpu", torch.bfloat16):
            assert runners.pays_compiled(net, x, calls) == pays
