"""Class labels: what is learned without them stays as it was, guidance is its formula, a class is what is asked for."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import commands
import numpy as np
import pytest
import torch
from driving import driven
from enumeration import World, random_law
from PIL import Image
from refusals import refused

from glauber import Denoiser, NoiseLaw, Oracle, Process, Schedule, run_chain
from glauber.conditional import Transformer, TransformerConfig
from glauber.conditional.adapters import guided
from glauber.data import job, open_shards, prepare
from glauber.method import class_number
from glauber.model import Model, load
from glauber.objective import dense
from glauber.process.draws import KeyedGenerator
from glauber.train import Trainer, TrainSpec, recipe, train
from glauber.train.data import shards_data
from glauber.train.in_memory import InMemory
from glauber.train.overrides import apply_settings
from glauber.train.run import fit, run

V, L = 3, 4


def network(classes: int = 0, seed: int = 0, random: bool = True, **options) -> Transformer:
    torch.manual_seed(seed)
    made = Transformer(TransformerConfig(V, L, width=16, layers=2, heads=2, cond_dim=8, classes=classes, **options))
    if random:  # adaLN-Zero starts as the uniform law, whatever it is told
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.normal_(std=0.3)
    return made.eval()


def process(sweeps: int = 2) -> Process:
    return Process(Schedule.round_robin(L, sweeps * L, keep="linear"), NoiseLaw.uniform(V))


def tokens(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(V, (rows, L), generator=torch.Generator().manual_seed(seed))


def question(rows: int = 5) -> tuple[torch.Tensor, ...]:
    u = torch.rand(rows, L, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return tokens(rows), torch.arange(rows) % (2 * L), u, torch.arange(rows)[:, None] % L


# Without classes


def test_a_network_without_classes_has_the_weights_that_it_had_and_one_with_them_has_a_table_more():
    plain, told = network(random=False), network(3, random=False)
    own = dict(told.named_parameters())
    assert own.pop("classes.weight").shape == (4, 8)
    assert [(name, p.shape) for name, p in plain.named_parameters()] == [(name, p.shape) for name, p in own.items()]


def test_a_config_from_before_there_were_classes_makes_the_same_network():
    said = asdict(network().config)
    del said["classes"]
    assert TransformerConfig(**said) == network().config


def test_where_the_class_makes_no_difference_losses_and_answers_are_those_of_a_network_without_classes_to_the_bit():
    """A table of zeros adds nothing: the same loss on the same random numbers, and the same gradient of every other weight."""
    plain, told = network(), network(3)
    with torch.no_grad():
        told.classes.weight.zero_()
        for name, parameter in plain.named_parameters():
            parameter.copy_(told.get_parameter(name))
    draws = [KeyedGenerator((0, 1), torch.arange(6), 6) for _ in range(2)]
    losses = [dense(net, process(), tokens(6), generator=g, chunked=True) for net, g in zip((plain, told), draws, strict=True)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.backward()
    for name, parameter in plain.named_parameters():
        assert torch.equal(parameter.grad, told.get_parameter(name).grad)
    assert torch.equal(Denoiser(plain)(*question()), Denoiser(told, 2)(*question()))


def test_data_with_classes_changes_nothing_for_a_network_without_them():
    classes = torch.arange(12) % 3
    spec = TrainSpec(steps=5, batch=4, warmup=1)
    runs = [train(network(random=False), process(), tokens(12), spec, classes=given) for given in (None, classes)]
    assert runs[0].losses == runs[1].losses
    for a, b in zip(*(r.network.parameters() for r in runs), strict=True):
        assert torch.equal(a, b)


# What the network is told


def test_no_class_is_the_last_row_and_a_class_may_be_said_for_all_rows_or_for_each():
    told, (x, t, survival, sites) = network(3), question()
    assert torch.equal(told(x, t, survival, sites), told(x, t, survival, sites, class_=3))
    mixed = torch.tensor([0, 2, 1, 3, 0])
    each = told(x, t, survival, sites, class_=mixed)
    for number in range(4):
        same = told(x, t, survival, sites, class_=number)
        torch.testing.assert_close(each[mixed == number], same[mixed == number])
        assert number == 3 or not torch.allclose(same, told(x, t, survival, sites), atol=1e-3)


def test_every_row_is_trained_with_its_own_class_and_a_tenth_of_them_with_none():
    rows, seen = 400, []
    net = network(3, random=False)
    spec = TrainSpec(steps=3, batch=rows, warmup=1, grad_accum=2)
    x0 = torch.arange(rows)[:, None].expand(rows, L) % V  # a row's tokens say what its class is
    trainer = Trainer(net, process(), InMemory(x0, x0[:, 0]), spec)
    before = trainer.forward

    def forward(x, *inputs, class_, **options):
        seen.append((x, class_))
        return before(x, *inputs, class_=class_, **options)

    trainer.forward = forward
    for _ in range(3):
        trainer.advance()
    classes = torch.cat([c for _, c in seen])
    none = (classes == 3).float().mean().item()
    assert abs(none - 0.1) < 5 * (0.1 * 0.9 / len(classes)) ** 0.5  # false alarm below 1e-6
    for x, c in seen:
        clean = torch.stack([(x == a).sum(1) for a in range(V)], 1).argmax(1)
        right = (clean == c)[c < 3].float().mean().item()
        assert right > 0.7  # noise blurs some rows; unrelated classes would be right for a third of them


@pytest.mark.parametrize("method", ["ggm", "ggm-marginal"])
def test_a_network_learns_what_each_class_is(method):
    """Class k is the row kkkk: told the class, the network knows a masked token; told none, it cannot."""
    classes = torch.arange(60) % V
    x0 = classes[:, None].expand(60, L)
    spec = TrainSpec(steps=150, batch=30, lr=1e-2, warmup=5, ema_decay=0.9, timesteps=2, clean_fraction=0.0)
    keep = Process(Schedule.round_robin(L, L, keep=0.1), NoiseLaw.uniform(V))
    trained = train(network(V, random=False), keep, x0, spec, method, classes=classes).network
    if method != "ggm":
        return  # trained without complaint: rows are asked about repeatedly there
    nothing = torch.full((1, L), V), torch.zeros(1, dtype=torch.int64), torch.zeros(1, L, dtype=torch.float64)
    for k in range(V):
        assert Denoiser(trained, k)(*nothing, torch.zeros(1, 1, dtype=torch.int64)).exp()[0, 0, k] > 0.9
    law = Denoiser(trained)(*nothing, torch.zeros(1, 1, dtype=torch.int64)).exp()[0, 0]
    assert law.max() < 0.7


def test_a_run_with_classes_that_is_stopped_and_goes_on_has_the_same_weights():
    def trainer() -> Trainer:
        data = InMemory(tokens(20), torch.arange(20) % 3)
        return Trainer(network(3, random=False), process(), data, TrainSpec(steps=6, batch=4, warmup=1))

    whole, first, second = trainer(), trainer(), trainer()
    for _ in range(6):
        whole.advance()
    for _ in range(3):
        first.advance()
    second.load_state(*first.state())
    for _ in range(3):
        second.advance()
    for a, b in zip(whole.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)


# Guidance, by enumeration


class ByClass:
    """A network that knows two classes exactly, and their mixture: the oracles of two laws and of their mean."""

    def __init__(self, tables, noise):
        self.oracles = [Oracle(table, noise) for table in (*tables, sum(tables) / len(tables))]

    def __call__(self, x, t, survival, sites, class_=2):
        return self.oracles[class_](x, t, survival, sites)


PI = np.array([0.2, 0.5, 0.3])
TABLES = [random_law(27, seed, 0.5) for seed in (0, 1)]


def exact():
    noise = NoiseLaw(torch.from_numpy(PI))
    return ByClass([torch.from_numpy(table).view(3, 3, 3) for table in TABLES], noise), noise


@pytest.mark.parametrize("class_", [0, 1])
def test_guidance_0_is_the_law_of_the_class(class_):
    """Pushed through every step of run_chain: the chain ends in P*(x | class)."""
    told, noise = exact()
    world = World(TABLES[class_], PI, [0, 1, 2] * 2, [0.6] * 3 + [0.0] * 3)
    steps = Process(Schedule.round_robin(3, 6, keep=[0.6, 0.0]), noise)
    laws = driven(world, steps, Denoiser(told, class_, guidance=0.0), world.noise, "heat-bath")
    np.testing.assert_allclose(laws[0], TABLES[class_], atol=1e-9)


@pytest.mark.parametrize("w", [0.5, 2.0, 7.0])
def test_guidance_w_is_its_formula(w):
    """c_w(a) = c(a|y)^(1+w) c(a)^-w / Σ, in plain probabilities, at every state and site of the space."""
    told, _ = exact()
    states = torch.cartesian_prod(*[torch.arange(3)] * 3)
    for site in range(3):
        sites = torch.full((27, 1), site)
        survival = torch.tensor([0.3, 0.8, 0.5], dtype=torch.float64).expand(27, 3)
        t = torch.zeros(27, dtype=torch.int64)
        of_class, general = (told(states, t, survival, sites, k).exp().numpy() for k in (0, 2))
        wanted = of_class ** (1 + w) / general**w
        found = Denoiser(told, 0, w)(states, t, survival, sites).exp().numpy()
        np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), atol=1e-12)
        assert np.abs(found - of_class).max() > 0.01


def test_the_guided_law_is_the_one_that_the_chain_draws_from():
    """One sweep over one site is a plain draw from the guided law: a chi-square would be needed for more, here it is exact."""
    noise = NoiseLaw.uniform(3)
    laws = [torch.tensor(p, dtype=torch.float64) for p in ([0.7, 0.2, 0.1], [0.1, 0.3, 0.6])]
    told = ByClass(laws, noise)
    world = World(laws[0].numpy(), noise.probs.numpy(), [0], [0.0])
    one = Process(Schedule.round_robin(1, 1, keep=0.0), noise)
    mean = sum(laws) / 2
    wanted = laws[0] ** 3 / mean**2
    found = driven(
        world, one, Denoiser(told, 0, 2.0), world.noise, "heat-bath", clean=[np.tile((wanted / wanted.sum()).numpy(), (3, 1))]
    )[0]
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=1e-9)


def test_what_a_class_cannot_be_stays_impossible():
    told, untold = torch.tensor([0.5, 0.5, 0.0]).log(), torch.tensor([0.25, 0.75, 0.0]).log()
    law = guided(told, untold, 1.0).exp()
    torch.testing.assert_close(law, torch.tensor([0.75, 0.25, 0.0]))


def test_guidance_comes_before_truncation():
    """Top-k 1 of the guided law, which is another token than the likeliest of the class's own."""
    noise = NoiseLaw.uniform(3)
    laws = [torch.tensor(p, dtype=torch.float64) for p in ([0.5, 0.4, 0.1], [0.9, 0.05, 0.05])]
    one = Process(Schedule.round_robin(1, 1, keep=0.0), noise)
    for guidance, token in ((0.0, 0), (2.0, 1)):
        x = run_chain(Denoiser(ByClass(laws, noise), 0, guidance), one, 20, top_k=1)
        assert (x == token).all()


# What users hold


def model(**about) -> Model:
    return Model(network(3), process(), about=about)


def test_a_class_is_named_by_its_name_or_its_number():
    named, unnamed = model(classes=["bag", "2", "coat"]), model()
    assert named.classes == ["bag", "2", "coat"]
    assert unnamed.classes == ["0", "1", "2"]
    assert [class_number(c, named.classes) for c in ("bag", "2", 2, "0", None)] == [0, 1, 2, 0, None]
    wanted = named.sample_tokens(8, seed=0, class_="coat")
    assert torch.equal(wanted, unnamed.sample_tokens(8, seed=0, class_=2))
    assert not torch.equal(wanted, named.sample_tokens(8, seed=0))
    assert not torch.equal(wanted, named.sample_tokens(8, seed=0, class_="coat", guidance=3.0))


def test_a_class_that_there_is_not_is_one_sentence():
    with refused("no class 'hat'; choose one of bag, 2, coat"):
        model(classes=["bag", "2", "coat"]).sample(1, class_="hat")
    with refused("no class 3"):
        model().sample(1, class_=3)
    with refused("not trained on classes"):
        Model(network(), process()).sample(1, class_=0)
    with refused("not trained on classes"):
        network()(*question(), class_=1)
    with refused("guidance is between 0 and 1000"):
        model().sample(1, class_=0, guidance=-1.0)
    with refused("say which one"):
        model().sample(1, guidance=1.0)
    with refused("0 or more classes"):
        TransformerConfig(V, L, classes=2, causal=True)


def test_a_model_with_classes_is_saved_and_loaded(tmp_path):
    it = model(classes=["a", "b", "c"])
    it.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.classes == ["a", "b", "c"]
    options = {"seed": 1, "class_": "b", "guidance": 1.5}
    assert torch.equal(it.sample_tokens(5, **options), again.sample_tokens(5, **options))


def test_gaps_are_filled_in_for_a_class():
    clamp = (torch.tensor([True, False, False, True]), torch.tensor([0, 0, 0, 1]))
    x = model().sample_tokens(50, seed=0, class_=1, guidance=1.0, clamp=clamp)
    assert (x[:, 0] == 0).all()
    assert (x[:, 3] == 1).all()


# From folders to a model


def folders(root: Path, counts: dict[str, int]) -> Path:
    """Images whose class is the folder: each folder has a grey of its own."""
    for k, (name, count) in enumerate(sorted(counts.items())):
        (root / name / "deeper").mkdir(parents=True)
        for j in range(count):
            grey = np.full((4, 4), 60 * k, np.uint8)
            grey[0, 0] = j  # all different
            Image.fromarray(grey).save(root / name / ("deeper" if j % 2 else ".") / f"{j:03d}.png")
    return root


def test_prepared_folders_carry_each_images_class(tmp_path):
    source = folders(tmp_path / "in", {"coat": 30, "bag": 21, "shirt": 9})
    options = {"tokenizer": "pixels", "valid": 0.1, "progress": False}
    shards = prepare([source], tmp_path / "out", classes=True, shard_tokens=160, **options)
    shards.verify()
    assert shards.classes == ("bag", "coat", "shirt")
    plain = prepare([source], tmp_path / "plain", shard_tokens=160, **options)
    for split in ("train", "valid"):
        rows, same = shards.rows(split), plain.rows(split)
        assert np.array_equal(rows[:], same[:])  # the tokens are those of data without classes
        assert np.array_equal(rows.classes(slice(None)), rows[:][:, 5] // 60)
        some = np.array([[1, 0], [2, 1]])
        assert np.array_equal(rows.classes(some), rows[some][..., 5] // 60)
        assert len(rows) == len(same)
    assert np.array_equal(shards.counts, plain.counts)
    assert shards.hash != plain.hash
    with pytest.raises(ValueError, match="no classes"):
        plain.rows("train").classes(0)


def test_preparing_classes_goes_on_after_an_interruption(tmp_path, monkeypatch):
    source = folders(tmp_path / "in", {"a": 12, "b": 12})
    monkeypatch.setattr(job, "BATCH", 200)
    monkeypatch.setattr(job, "SAVE_EVERY", 0.0)
    options = {"tokenizer": "pixels", "valid": 0.1, "progress": False, "classes": True}
    prepare([source], tmp_path / "whole", **options)
    take, calls = job.Job.take, []

    def cut(self, *arguments):
        calls.append(0)
        if len(calls) == 5:
            raise KeyboardInterrupt
        take(self, *arguments)

    monkeypatch.setattr(job.Job, "take", cut)
    with pytest.raises(KeyboardInterrupt):
        prepare([source], tmp_path / "out", **options)
    monkeypatch.setattr(job.Job, "take", take)
    prepare([source], tmp_path / "out", **options)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "whole").iterdir()
    }


def test_classes_without_sub_folders_or_images_are_refused(tmp_path):
    source = folders(tmp_path / "in", {"a": 2})
    Image.new("L", (4, 4)).save(source / "stray.png")
    with refused("stray.png lies in no sub-folder"):
        prepare([source], tmp_path / "out", tokenizer="pixels", progress=False, classes=True)
    (tmp_path / "text.txt").write_text("some text")
    with refused("sub-folders of images"):
        prepare([tmp_path / "text.txt"], tmp_path / "out", progress=False, classes=True)


def test_from_folders_to_samples_of_a_class(tmp_path):
    """By the commands: the samples of a class have the class's grey."""
    source = folders(tmp_path / "in", {"dark": 40, "light": 40})

    def glauber(*arguments: str) -> subprocess.CompletedProcess[str]:
        return commands.glauber(*arguments, cwd=tmp_path)

    data = glauber("prepare", source, "--out", "data", "--tokenizer", "pixels:4", "--classes")
    assert data.returncode == 0, data.stderr
    assert open_shards(tmp_path / "data").classes == ("dark", "light")
    settings = ("train.steps=150", "train.batch=16", "train.samples=0", "train.evaluate_every=1000")
    made = glauber("train", "--recipe", "tiny", "--data", "data", "--out", "run", *(w for s in settings for w in ("--set", s)))
    assert made.returncode == 0, made.stderr
    assert "2 classes" in made.stdout
    assert json.loads((tmp_path / "run/model/config.json").read_text())["about"]["classes"] == ["dark", "light"]
    means = {}
    for name in ("dark", "light"):
        drawn = glauber("sample", "run", "-n", "6", "--class", name, "--guidance", "1", "--seed", "0", "--out", name)
        assert drawn.returncode == 0, drawn.stderr
        means[name] = np.mean([np.asarray(Image.open(tmp_path / name / f"{k:04d}.png"))[1:] for k in range(6)])
    assert means["dark"] < 15 < 60 < means["light"]
    wrong = glauber("sample", "run", "--class", "grey", "--out", "none")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "choose one of dark, light" in wrong.stderr


def test_a_network_that_reads_is_not_told_the_classes_and_the_run_says_so(tmp_path):
    source = folders(tmp_path / "in", {"a": 10, "b": 10})
    prepare([source], tmp_path / "data", tokenizer="pixels:4", progress=False, classes=True)
    data, said = shards_data(tmp_path / "data"), []
    assert fit(recipe("tiny"), data).network.classes == 2
    plan = apply_settings(recipe("tiny"), {"method": "ggm-marginal", "process.keep": 0.5, "train.steps": 2, "train.samples": 0})
    outcome = run(plan, data, tmp_path / "run", say=said.append)
    assert any("2 classes, which this method, or a causal network, is not conditioned on" in line for line in said)
    assert load(outcome.model).classes == []
