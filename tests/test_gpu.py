"""What only a GPU does: work recorded as a CUDA graph and replayed, products in bfloat16, training and resuming there.

`make test-gpu` runs these; no other target does. They fail where there is no GPU, and are never skipped.
"""

from dataclasses import replace

import pytest
import torch

from glauber import Model, NoiseLaw, Process, Schedule, Transformer, TransformerConfig, run_chain
from glauber.conditional import CausalConditional, Denoiser
from glauber.method import METHODS, find_method
from glauber.runtime import cuda_graph, runners
from glauber.runtime.runners import cuda_runner
from glauber.train import Trainer, TrainSpec, recipe
from glauber.train.checkpoint import checkpoints
from glauber.train.data import Data
from glauber.train.in_memory import InMemory
from glauber.train.report import read_log
from glauber.train.run import fit, run

pytestmark = pytest.mark.gpu

V, L, ROWS = 5, 16, 9
CARD = torch.device("cuda")
NOISE = NoiseLaw(torch.tensor([0.1, 0.3, 0.2, 0.25, 0.15]))
TOKENS = torch.arange(ROWS * L).view(ROWS, L) % V


@pytest.fixture
def replays(monkeypatch):
    """A list that grows with each replay of a CUDA graph."""
    seen, replay = [], torch.cuda.CUDAGraph.replay

    def counted(graph):
        seen.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    return seen


@pytest.fixture
def compiler():
    """As in a new process: nothing is compiled yet."""
    torch.compiler.reset()


def network(length: int = L, **shape) -> Transformer:
    """In float64, where no token depends on rounding; its answers depend on all of its input."""
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(V, length, width=16, layers=2, heads=2, cond_dim=8, **shape)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


KEEP = (0.9, 0.8, 0.9, 0.0)
GIVEN = torch.arange(L) % 3 == 0
RULE = (torch.arange(L) < 9, torch.arange(V) == 2)
CHAINS = {
    "from left to right": (Schedule.round_robin(L, 4 * L, KEEP), {}),
    "in blocks": (Schedule.round_robin(L, 8 * L, 0.9, "strided", block=2, last_keep=0.0), {}),
    "with marked noise": (Schedule.round_robin(L, 4 * L, KEEP), {"mark_noise": True}),
    "clamped": (Schedule.round_robin(L, 4 * L, KEEP), {"clamp": (GIVEN.expand(ROWS, L), TOKENS)}),
    "each row its own clamp": (Schedule.round_robin(L, 6 * L, 0.95, last_keep=0.0), {"clamp": (TOKENS > 2, TOKENS)}),
    "with absent sites": (Schedule.round_robin(L, 6 * L, 0.95, last_keep=0.0), {"absent": GIVEN}),
    "from the middle": (Schedule.round_robin(L, 6 * L, 0.95, last_keep=0.0), {"start": (TOKENS, 5 * L), "stop": 7}),
    "truncated": (
        Schedule.round_robin(L, 4 * L, KEEP),
        {"temperature": (1.5, 0.5, 0.9), "top_p": 0.7, "top_k": 4, "ban": [1]},
    ),
}


def drawn(conditional, schedule, options, device, show=None):
    """Tokens on the CPU, from the same random numbers on each device."""
    process = Process(schedule, NOISE).to(device)
    rows = None if "start" in options else ROWS
    generator = torch.Generator().manual_seed(3)
    chain = run_chain(conditional, process, rows, generator=generator, on_step=show, **options, _runner=cuda_runner)
    return chain.cpu()


@pytest.mark.parametrize("name", CHAINS)
def test_a_replayed_chain_gives_the_tokens_of_one_step_after_the_other_and_of_the_cpu(name, replays):
    schedule, options = CHAINS[name]
    net = network()
    on_cpu = drawn(Denoiser(net), schedule, options, "cpu")
    net.to(CARD)
    together = drawn(Denoiser(net), schedule, options, CARD, show=lambda t, x: None)  # who sees every state, has no replays
    assert not replays
    replayed = drawn(Denoiser(net), schedule, options, CARD)
    assert replays
    assert torch.equal(replayed, together)
    assert torch.equal(replayed, on_cpu)


@pytest.mark.parametrize("what", ["rules", "guidance"])
def test_a_replayed_chain_keeps_its_rules_and_its_guidance(what, replays):
    schedule = Schedule.round_robin(L, 4 * L, KEEP)
    net = network(classes=3 if what == "guidance" else 0)
    conditional, options = (Denoiser(net, 1, 2.0), {}) if what == "guidance" else (Denoiser(net), {"_rules": [RULE]})
    on_cpu = drawn(conditional, schedule, options, "cpu")
    net.to(CARD)
    assert torch.equal(drawn(conditional, schedule, options, CARD), on_cpu)
    assert replays


@pytest.mark.parametrize("options", [{}, {"temperature": 0.8, "top_p": 0.9}], ids=["as it is", "truncated"])
def test_a_replayed_causal_chain_gives_the_tokens_of_one_step_after_the_other_and_of_the_cpu(options, replays):
    length = 3 * L
    schedule, net = (
        Schedule.round_robin(length, length, 0.0, "left-to-right"),
        network(length, causal=True, learned_positions=True),
    )
    on_cpu = drawn(CausalConditional(net), schedule, options, "cpu")
    net.to(CARD)
    together = drawn(CausalConditional(net), schedule, options, CARD, show=lambda t, x: None)
    assert not replays
    replayed = drawn(CausalConditional(net), schedule, options, CARD)
    assert replays
    assert torch.equal(replayed, together)
    assert torch.equal(replayed, on_cpu)


def test_a_replayed_chain_that_meets_a_nan_is_refused(replays):
    net = network().to(CARD)
    with torch.no_grad():
        net.head.bias[2] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        drawn(Denoiser(net), Schedule.round_robin(L, 4 * L, KEEP), {}, CARD)
    assert replays


def counting(rows: int) -> torch.Tensor:
    """Rows that count up from any token on."""
    first = torch.randint(V, (rows, 1), generator=torch.Generator().manual_seed(0))
    return (first + torch.arange(L)) % V


DATA = Data(InMemory(counting(512)), InMemory(counting(64)), V, L, torch.ones(V), None, "counting")
SPEC = TrainSpec(400, 128, causal_every=2, marked_fraction=0.3, lr=3e-3, warmup=20, grad_clip=1.0, ema_decay=0.98)
PROCESS = Process(Schedule.round_robin(L, 4 * L, "linear"), NoiseLaw.uniform(V))


@pytest.fixture(scope="module")
def toy() -> Transformer:
    """A network trained on the card, both causal and in any order."""
    torch.manual_seed(0)
    shape = TransformerConfig(V, L, width=64, layers=2, heads=2, cond_dim=16, causal=True)
    trainer = Trainer(Transformer(shape).to(CARD), PROCESS, DATA.train, SPEC)
    while not trainer.done:
        trainer.advance()
    return trainer.average.network.eval()


@pytest.mark.parametrize("how", ["in any order", "compiled, in any order", "causal"])
def test_a_model_samples_in_bfloat16_by_default_and_as_well_as_in_float32(how, toy, replays, compiler, monkeypatch):
    """Of 4000 rows a share p counts up; two such shares differ by more than 0.04 less than once in 3000, whatever p is."""
    monkeypatch.setattr(runners, "COMPILED", 0.0 if "compiled" in how else torch.inf)
    process = PROCESS if "any order" in how else Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), PROCESS.noise)
    if how == "causal":
        monkeypatch.setattr(runners, "WORTH", 0)  # else so short a row goes step by step
    model, tokens = Model(toy, process), {}
    for precision in (None, "bf16", "fp32"):
        model.precision = precision
        tokens[precision] = model.sample_tokens(4000, seed=0).cpu()
    assert len(replays) > 30
    assert torch.equal(tokens[None], tokens["bf16"])
    assert not torch.equal(tokens["bf16"], tokens["fp32"])
    right = {name: (x == (x[:, :1] + torch.arange(L)) % V).all(1).double().mean().item() for name, x in tokens.items()}
    print(f"{how}: rows that count up, {right['bf16']:.3f} in bfloat16, {right['fp32']:.3f} in float32")
    assert right["fp32"] > 0.8
    assert abs(right["bf16"] - right["fp32"]) < 0.04
    assert all(parameter.dtype == torch.float32 for parameter in toy.parameters())  # whole again


def trained(plan, steps: int, eager: int, compiled: bool, monkeypatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses (steps,) and all averaged weights, when the first `eager` steps are not replayed."""
    monkeypatch.setattr(cuda_graph, "EAGER", eager)
    plan = fit(plan, DATA)
    torch.manual_seed(0)
    net = find_method(plan.method).network(plan.network).to(CARD)
    trainer = Trainer(net, plan.process.build(V, L, DATA.counts), DATA.train, plan.train, plan.method, compiled)
    losses = torch.stack([trainer.advance() for _ in range(steps)]).cpu()
    assert trainer.change.ready == (eager < steps)
    return losses, torch.cat([parameter.flatten() for parameter in trainer.average.network.parameters()]).cpu()


GGM = replace(
    recipe("tiny"),
    network=TransformerConfig(V, L, width=64, layers=2, heads=2, cond_dim=16, causal=True),
    train=replace(SPEC, steps=40, decay=40, batch=32, precision="bf16", grad_accum=2, evaluate_every=20, checkpoint_every=10),
)


def by(optimizer: str):
    """The recipe with this optimiser."""
    return replace(GGM, train=replace(GGM.train, optimizer=optimizer))


@pytest.mark.parametrize("how", ["adamw", "adamw, compiled", "muon"])
def test_a_replayed_training_step_is_the_step_itself_to_the_bit(how, compiler, monkeypatch):
    plan, compiled = by(how.split(",")[0]), "compiled" in how
    once, again = trained(plan, 30, 30, compiled, monkeypatch), trained(plan, 30, 30, compiled, monkeypatch)
    assert all(map(torch.equal, once, again))  # so that a difference below were the replay's
    assert all(map(torch.equal, once, trained(plan, 30, 3, compiled, monkeypatch)))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ggm"])
def test_the_training_step_of_every_other_method_can_be_replayed(method, monkeypatch):
    """To a thousandth: sums that several threads add to have no order."""
    plan = replace(recipe("tiny"), method=method, train=replace(recipe("tiny").train, precision="bf16", batch=32))
    if not METHODS[method].can.clean_conditional:
        plan = replace(plan, network=replace(plan.network, conditioning="time"), process=replace(plan.process, keep=0.5))
    (losses, _), (replayed, _) = trained(plan, 12, 12, False, monkeypatch), trained(plan, 12, 3, False, monkeypatch)
    print(f"{method}: replayed, the losses differ by {(losses - replayed).abs().max().item():g} at most")
    torch.testing.assert_close(replayed, losses, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_that_was_stopped_and_resumed_on_the_card_ends_in_the_same_weights_to_the_bit(
    optimizer, tmp_path, replays, compiler
):
    """Compiled, in bfloat16, with validations and samples in between."""
    plan, said = by(optimizer), list[str]()
    assert run(plan, DATA, tmp_path / "straight", say=said.append).finished
    assert any("device cuda" in line and "bf16" in line and "compiled" in line for line in said)
    assert len(replays) >= 37
    shorter = replace(plan, train=replace(plan.train, steps=20))
    run(shorter, DATA, tmp_path / "resumed", say=said.append)
    torch.compiler.reset()  # as in a new process
    assert run(plan, DATA, tmp_path / "resumed", resume=True, say=said.append).step == 40
    assert "going on from step 20" in said
    for part in ("weights", "average", "optimizer"):
        files = [checkpoints(tmp_path / how / "checkpoints")[-1] / f"{part}.safetensors" for how in ("straight", "resumed")]
        assert files[0].read_bytes() == files[1].read_bytes(), part


def rate_that_leaps(step: int, spec: TrainSpec, progress: float | None = None) -> float:
    """Beyond all bounds from step 13 on, when steps are replayed."""
    return 1e-3 if step < 12 else 1e30


def test_a_replayed_step_notes_the_first_loss_that_is_not_finite_and_waits_for_nothing(replays, monkeypatch):
    monkeypatch.setattr("glauber.train.trainer.learning_rate", rate_that_leaps)
    plan = fit(GGM, DATA)
    torch.manual_seed(0)
    net = find_method(plan.method).network(plan.network).to(CARD)
    trainer = Trainer(net, plan.process.build(V, L, DATA.counts), DATA.train, plan.train, plan.method)
    for _ in range(8):
        trainer.advance()
    assert trainer.trouble(state=True) is None
    before = len(replays)
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses = [trainer.advance() for _ in range(22)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(replays) == before + 22
    first = next(step for step, loss in enumerate(losses, start=9) if not loss.isfinite())
    found = trainer.trouble()
    assert found is not None
    step, words = found
    assert step in (first - 1, first)  # where the loss was finite, the gradient may not have been
    assert 13 < step < 20
    assert words.endswith(f"of step {step} is nan, at a learning rate of 1e+30")


def test_a_run_that_is_lost_on_the_card_keeps_its_good_checkpoint_and_goes_on_from_it(tmp_path, replays, compiler, monkeypatch):
    plan = replace(GGM, train=replace(GGM.train, checkpoint_every=6))
    assert run(plan, DATA, tmp_path / "straight", say=lambda _: None).finished
    torch.compiler.reset()  # as in a new process
    with monkeypatch.context() as patch:
        patch.setattr("glauber.train.trainer.learning_rate", rate_that_leaps)
        with pytest.raises(ValueError, match=r"of step 1\d is nan, .* the checkpoint of step 12 is good, go on from it"):
            run(plan, DATA, tmp_path / "run", say=lambda _: None)
    assert replays
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoints")] == ["step-00000006", "step-00000012"]
    straight, lost = ([record["loss"] for record in read_log(tmp_path / name / "log.jsonl")] for name in ("straight", "run"))
    assert len(lost) == 1
    torch.compiler.reset()
    assert run(plan, DATA, tmp_path / "run", resume=True, say=lambda _: None).step == 40
    assert read_log(tmp_path / "run" / "log.jsonl")[-1]["loss"] == straight[-1]
