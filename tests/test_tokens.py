"""Tokens in Python: a tensor, an array of any whole-number type, and lists are the same thing wherever tokens are taken."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused

import glauber
from glauber import Denoiser, Model, NoiseLaw, PixelCodec, Process, Schedule, Transformer, TransformerConfig, objective
from glauber.codec import CharCodec
from glauber.method import METHODS, LossOptions
from glauber.train import TrainSpec, train

V, L = 4, 6
ROWS = torch.tensor([[0, 1, 2, 3, 0, 1], [3, 3, 2, 2, 1, 1]])
GIVEN = torch.tensor([True, True, False, True, False, True])

KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "lists": lambda x: x.tolist(),
    "tuples": lambda x: tuple(tuple(row) if isinstance(row, list) else row for row in x.tolist()),
    "an array": lambda x: x.numpy(),
    "a list of arrays": lambda x: list(x.numpy()),
    "an array of bytes": lambda x: x.numpy().astype(np.uint8),
    "an array of uint16, read only": lambda x: np.frombuffer(x.numpy().astype(np.uint16), np.uint16).reshape(x.shape),
    "a tensor of int32": lambda x: x.int(),
}


def network(length: int = L, **settings: Any) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(V, length, width=16, layers=1, heads=2, **settings))
    torch.nn.init.normal_(made.head.weight)
    return made


def process(keep: Any = "linear", length: int = L, **schedule: Any) -> Process:
    return Process(Schedule.round_robin(length, 2 * length, keep, **schedule), NoiseLaw.uniform(V))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def mask_of(tokens: Any) -> Any:
    """In a kind of its own, like the tokens."""
    return GIVEN.tolist() if isinstance(tokens, (list, tuple)) else GIVEN.numpy()


def chain(**options: Any) -> torch.Tensor:
    return glauber.run_chain(Denoiser(network()), process(), generator=generator(), **options)


def trained(tokens: Any) -> list[float]:
    return train(network(), process(), tokens, TrainSpec(steps=2, batch=2)).losses


def written(tokens: Any, codec: Any = None) -> Any:
    return Model(network(), process(), codec).decode(tokens)


def by(method: str) -> Transformer:
    torch.manual_seed(0)
    return METHODS[method].network(TransformerConfig(V, L, width=16, layers=1, heads=2))


def left() -> Process:
    return process(0.0, order="left-to-right")


TAKERS: dict[str, Callable[[Any], Any]] = {
    "Process.corrupt": lambda x: process().corrupt(x, 3, generator()).x_t,
    **{
        name: lambda x, name=name: getattr(objective, name)(network(), process(0.5), x, generator=generator())
        for name in ("binary", "marginal", "dense", "masked")
    },
    "causal": lambda x: objective.causal(network(causal=True), process(), x),
    **{
        f"{name}.loss": lambda x, name=name: METHODS[name].loss(by(name), left(), x, LossOptions(generator=generator()))
        for name in ("mdlm", "sedd", "udlm", "plaid")
    },
    **{
        f"{name}.bound": lambda x, name=name: METHODS[name].bound(by(name), left(), x, generator=generator())
        for name in ("mdlm", "sedd", "udlm", "plaid")
    },
    "bound": lambda x: glauber.bound(Denoiser(network()), process(), x, draws=2, generator=generator()).mean,
    "the start of run_chain": lambda x: chain(start=(x, 8)),
    "the clamp of run_chain": lambda x: chain(num=2, clamp=(mask_of(x), x)),
    "what is absent of run_chain": lambda x: chain(num=2, absent=mask_of(x)),
    "train": trained,
    "Model.score": lambda x: Model(network(), process()).score(x, draws=2),
    "Model.infill_tokens": lambda x: Model(network(), process()).infill_tokens(x, mask_of(x), 2, seed=0),
    "Model.decode": written,
    "Model.decode of text": lambda x: written(x, CharCodec("abc")),
    "PixelCodec.decode": lambda x: PixelCodec((2, 3), V).decode(x),
    "Model.decode of images": lambda x: np.stack(written(x, PixelCodec((2, 3), V))),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray):
        return np.array_equal(torch.as_tensor(one).detach().numpy(), torch.as_tensor(other).detach().numpy())
    return bool(one == other)


@pytest.mark.parametrize("taker", TAKERS)
def test_tokens_may_be_lists_or_arrays_wherever_they_are_taken(taker):
    take = TAKERS[taker]
    torch.manual_seed(0)
    wanted = take(ROWS)
    for kind, make in KINDS.items():
        torch.manual_seed(0)
        assert same(take(make(ROWS)), wanted), kind


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_whole_number_is_no_token(taker):
    if taker == "what is absent of run_chain":
        return  # a mask, see below
    for wrong in (ROWS.double(), [*ROWS.tolist()[:1], [0.5] * L], ROWS.numpy() > 1, [["a"] * L], [[10**30] * L]):
        with refused("whole numbers"):
            TAKERS[taker](wrong)
    with refused("equally long"):
        TAKERS[taker]([[0, 1], [0]])


def test_a_site_and_its_token_may_be_numpys_and_so_may_a_number_of_samples_and_a_seed():
    assert torch.equal(chain(num=np.int64(3), clamp={np.int64(1): np.uint8(2)}), chain(num=3, clamp={1: 2}))
    assert torch.equal(chain(start=(ROWS, np.int64(8))), chain(start=(ROWS, 8)))
    model = Model(network(), process())
    assert model.sample(np.int64(2), seed=np.int64(5)) == model.sample(2, seed=5)
    for ban in (np.array([1, 2]), torch.tensor([1, 2]), {1, 2}, range(1, 3)):
        options = {"ban": ban, "top_k": np.int64(3), "temperature": np.float32(2)}
        assert model.sample(3, seed=0, **options) == model.sample(3, seed=0, ban=[1, 2], top_k=3, temperature=2.0)
    with refused("whole numbers"):
        model.sample(1, ban=[0.5])


def test_a_mask_is_of_booleans():
    for wrong in ([0, 1] * 3, np.arange(6), [0.5] * 6, ["a"] * 6):
        with refused("mask of booleans"):
            chain(num=2, clamp=(wrong, ROWS))
        with refused("mask of booleans"):
            Model(network(), process()).infill_tokens(ROWS, wrong)
        with refused("mask of booleans"):
            chain(num=2, absent=wrong)


@pytest.mark.parametrize("codec", [None, CharCodec("abc"), PixelCodec((2, 3), V)], ids=["tokens", "text", "images"])
def test_a_model_scores_what_it_samples(codec):
    model = Model(network(), process(), codec, sampling={"ban": [3]})  # the end of a text, which a text does not show
    samples = model.sample(3, seed=0)
    score = model.score(samples, draws=2)
    assert score["rows"] == 3
    assert score["bits_per_token"] == model.score(model.sample_tokens(3, seed=0), draws=2)["bits_per_token"]


def test_tokens_on_a_grid_are_filled_in_their_own_shape_and_so_are_masks():
    model = Model(network(grid=(2, 3)), process())
    flat = model.infill_tokens(ROWS, ~GIVEN, 2, seed=0)
    grids = ROWS.view(2, 2, 3)
    for tokens, mask, shape in (
        (grids, (~GIVEN).view(2, 3), (2, 2, 2, 3)),
        (grids, ~GIVEN, (2, 2, 2, 3)),
        (grids, (~GIVEN).view(2, 3).expand(2, 2, 3), (2, 2, 2, 3)),
        (ROWS, (~GIVEN).view(2, 3), (2, 2, 6)),
    ):
        filled = model.infill_tokens(tokens, mask, 2, seed=0)
        assert filled.shape == shape
        assert torch.equal(filled.flatten(), flat.flatten())
    one = model.infill_tokens(grids[0], (~GIVEN).view(2, 3), seed=0)
    assert torch.equal(one.flatten(), model.infill_tokens(ROWS[0], ~GIVEN, seed=0))
    assert one.shape == (2, 3)
    with refused("they must agree"):
        model.infill_tokens(ROWS, torch.ones(3, 2, dtype=torch.bool))


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5, "one"])
def test_a_seed_is_a_whole_number_that_is_not_negative(seed):
    model = Model(network(), process())
    for use in (model.sample, model.sample_tokens):
        with refused("a seed is a whole number from 0"):
            use(1, seed=seed)
    for call in (lambda: model.infill_tokens(ROWS, ~GIVEN, seed=seed), lambda: model.score(ROWS, seed=seed)):
        with refused("a seed is a whole number from 0"):
            call()


@pytest.mark.parametrize("causal", [False, True])
def test_a_score_needs_at_least_one_draw(causal):
    reading = Process(Schedule.round_robin(L, L, 0.0, "left-to-right"), NoiseLaw.uniform(V))
    model = Model(network(causal=causal), reading if causal else process())
    with refused("at least one draw"):
        model.score(ROWS, draws=0)


def test_a_model_is_not_saved_into_a_folder_that_holds_something(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    model = Model(network(), process())
    with refused("holds other files; choose another folder, or pass overwrite=True"):
        model.save(tmp_path)
    with refused("is a file; choose a folder"):
        model.save(tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    model.save(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
