"""A user's mistake gets one plain sentence, in a ValueError."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from refusals import refused
from torch import Tensor

from glauber import (
    Classifier,
    Denoiser,
    NoiseLaw,
    Oracle,
    Process,
    Schedule,
    Transformer,
    TransformerConfig,
    Truncation,
    binary,
    bound,
    dense,
    marginal,
    run_chain,
)

V, L, T = 3, 4, 8
NAN, INF = math.nan, math.inf


def process(keep: Any = 0.5, probs: Any = None, **schedule: Any) -> Process:
    law = NoiseLaw.uniform(V) if probs is None else NoiseLaw(torch.tensor(probs))
    return Process(Schedule.round_robin(L, T, keep, **schedule), law)


def oracle() -> Oracle:
    return Oracle(torch.full((V,) * L, 1 / V**L, dtype=torch.float64), NoiseLaw.uniform(V))


def tokens(*first: int, rows: int = 2, dtype: torch.dtype = torch.int64) -> Tensor:
    """Zeros but for the first tokens of the first row."""
    x = torch.zeros(rows, L, dtype=dtype)
    x[0, : len(first)] = torch.tensor(first)
    return x


def network(x: Tensor, t: Tensor, survival: Tensor, sites: Tensor | None = None) -> Tensor:
    rows, count = x.shape if sites is None else sites.shape
    return torch.zeros(rows, count, V)


def chain(num: int | None = 2, conditional: Any = None, on: Process | None = None, **options: Any) -> Tensor:
    return run_chain(conditional or oracle(), on or process(), num, **options)


class KnowsOnlyTheStepLaw:
    def step_law(self, x, t, survival, sites):
        return torch.zeros(*sites.shape, V, dtype=torch.float64).log_softmax(-1)


def transformer(length: int = L, vocab: int = V) -> Transformer:
    return Transformer(TransformerConfig(vocab, length, width=8, layers=1, heads=2, cond_dim=4))


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    # tokens
    "corrupt: token too large": (lambda: process().corrupt(tokens(V), 0), r"0\.\.2; these span 0\.\.3"),
    "corrupt: token negative": (lambda: process().corrupt(tokens(-1), 0), r"0\.\.2; these span -1"),
    "corrupt: token of type float": (lambda: process().corrupt(tokens(dtype=torch.float32), 0), "whole numbers, not torch"),
    "corrupt: token of type bool": (lambda: process().corrupt(tokens(dtype=torch.bool), 0), "whole numbers"),
    "corrupt: another length": (lambda: process().corrupt(tokens()[:, 1:], 0), r"\(rows, 4\), got \(2, 3\)"),
    "corrupt: no rows axis": (lambda: process().corrupt(tokens()[0], 0), r"\(rows, 4\), got \(4,\)"),
    "start: token too large": (lambda: chain(start=(tokens(V), T)), r"0\.\.2"),
    "start: token negative": (lambda: chain(start=(tokens(-1), T)), r"0\.\.2"),
    "start: token beyond the mask": (lambda: chain(start=(tokens(V + 1), T), mark_noise=True), r"0\.\.3"),
    "start: token of type float": (lambda: chain(start=(tokens(dtype=torch.float64), T)), "whole numbers"),
    "start: another length": (lambda: chain(start=(tokens()[:, 1:], T)), r"\(rows, 4\)"),
    "start: masked where nothing was noised": (lambda: chain(start=(tokens(0, V), 1), mark_noise=True), "never noised"),
    "clamp: token too large": (lambda: chain(clamp={0: V}), r"0\.\.2"),
    "clamp: token negative": (lambda: chain(clamp={0: -1}), r"0\.\.2"),
    "clamp: token too large under a mask": (lambda: chain(clamp=([True] * L, [0, 0, V, 0])), r"0\.\.2"),
    "clamp: tokens of type float": (lambda: chain(clamp=([True] * L, [0.0] * L)), "whole numbers"),
    "clamp: mask of numbers": (lambda: chain(clamp=([1, 0, 0, 1], [0] * L)), "booleans"),
    "binary: token too large": (lambda: binary(network, process(), tokens(V)), r"0\.\.2"),
    "marginal: token too large": (lambda: marginal(network, process(), tokens(V)), r"0\.\.2"),
    "dense: token too large": (lambda: dense(network, process(), tokens(V)), r"0\.\.2"),
    "dense: token of type float": (lambda: dense(network, process(), tokens(dtype=torch.float32)), "whole numbers"),
    "bound: token too large": (lambda: bound(oracle(), process(), tokens(V)), r"0\.\.2"),
    "bound: token of type float": (lambda: bound(oracle(), process(), tokens(dtype=torch.float32)), "whole numbers"),
    # times
    "t negative": (lambda: process().corrupt(tokens(), -1), r"t must lie in 0\.\.7"),
    "t = T": (lambda: process().corrupt(tokens(), T), r"t must lie in 0\.\.7, got 8"),
    "t = T in one row": (lambda: process().corrupt(tokens(), torch.tensor([0, T])), r"t must lie in 0\.\.7, got 0\.\.8"),
    "t negative in one row": (lambda: process().corrupt(tokens(), torch.tensor([0, -1])), r"t must lie in 0\.\.7"),
    "t not whole": (lambda: process().corrupt(tokens(), 0.5), "whole number"),
    "t for another number of rows": (lambda: process().corrupt(tokens(), torch.zeros(3, dtype=torch.int64)), "one per row"),
    "start: step negative": (lambda: chain(start=(tokens(), -1)), r"0\.\.8 and be a multiple of the block, not -1"),
    "start: step beyond T": (lambda: chain(start=(tokens(), T + 1)), r"0\.\.8"),
    "start: step inside a block": (lambda: chain(on=process(block=2), start=(tokens(), 3)), "multiple of the block"),
    # keep
    "keep above 1": (lambda: process(1.1), r"keep must lie in \[0, 1\]"),
    "keep negative": (lambda: process(-0.1), r"keep must lie in \[0, 1\]"),
    "keep NaN": (lambda: process(NAN), r"keep must lie in \[0, 1\]"),
    "keep infinite": (lambda: process(INF), r"keep must lie in \[0, 1\]"),
    "keep of one sweep NaN": (lambda: process([0.5, NAN]), r"keep must lie in \[0, 1\]"),
    "keep of the last sweep above 1": (lambda: process(last_keep=1.5), r"keep must lie in \[0, 1\]"),
    "keep of the last sweep NaN": (lambda: process(last_keep=NAN), r"keep must lie in \[0, 1\]"),
    "keep of too many values": (lambda: process([0.5] * 3), r"one per sweep \(2\) or one per step \(8\)"),
    "keep of an unknown name": (lambda: process("cosine"), "'linear', not 'cosine'"),
    # what the paper's losses need
    **{
        f"{name}: keep {keep}": (lambda ask=ask, keep=keep: ask(process(keep)), "0 < keep < 1")
        for name, ask in {
            "binary": lambda on: binary(network, on, tokens()),
            "marginal": lambda on: marginal(network, on, tokens()),
            "Classifier": lambda on: Classifier(network, on),
        }.items()
        for keep in (0.0, 1.0, [0.5, 0.0], [1.0, 0.5], "linear")
    },
    **{
        f"{name}: noise law with a zero": (lambda ask=ask: ask(process(probs=[0.5, 0.5, 0.0])), "without zeros")
        for name, ask in {
            "binary": lambda on: binary(network, on, tokens()),
            "marginal": lambda on: marginal(network, on, tokens()),
            "Classifier": lambda on: Classifier(network, on),
        }.items()
    },
    # noise laws
    "noise: negative": (lambda: NoiseLaw(torch.tensor([1.5, -0.5])), "at least 0 and sum to 1"),
    "noise: sums to 2": (lambda: NoiseLaw(torch.tensor([1.0, 1.0])), "sum to 1"),
    "noise: sums to 0": (lambda: NoiseLaw(torch.zeros(3)), "sum to 1"),
    "noise: NaN": (lambda: NoiseLaw(torch.tensor([NAN, 1.0])), "sum to 1"),
    "noise: infinite": (lambda: NoiseLaw(torch.tensor([INF, 1.0])), "sum to 1"),
    "noise: one token": (lambda: NoiseLaw(torch.ones(1)), "at least two"),
    "noise: a matrix": (lambda: NoiseLaw(torch.full((2, 2), 0.25)), "a vector"),
    "noise: uniform over one token": (lambda: NoiseLaw.uniform(1), "at least two tokens"),
    "noise: uniform over none": (lambda: NoiseLaw.uniform(0), "at least two tokens"),
    "noise: negative counts": (lambda: NoiseLaw.unigram([3, -1]), "at least 0"),
    "noise: NaN counts": (lambda: NoiseLaw.unigram([3, NAN]), "at least 0"),
    "noise: no counts, no smoothing": (lambda: NoiseLaw.unigram([0, 0], smoothing=0), "without smoothing"),
    "noise: negative smoothing": (lambda: NoiseLaw.unigram([3, 1], smoothing=-1), "at least 0"),
    # lengths
    "length of the network": (lambda: chain(conditional=Denoiser(transformer(5))), "made for length 5, got 4"),
    "length of the oracle": (lambda: chain(on=Process(Schedule.round_robin(3, 6), NoiseLaw.uniform(V))), "length 4, got 3"),
    "oracle: an axis of another size": (lambda: Oracle(torch.full((2, 3), 1 / 6), NoiseLaw.uniform(3)), "3 entries per site"),
    "oracle: not a law": (lambda: Oracle(torch.ones(3, 3), NoiseLaw.uniform(3)), "sum to 1"),
    "oracle: negative": (lambda: Oracle(torch.tensor([1.5, -0.5]), NoiseLaw.uniform(2)), "probabilities"),
    # clamps
    "clamp: site beyond the end": (lambda: chain(clamp={L: 0}), r"site 4 is outside the sequence 0\.\.3"),
    "clamp: site negative": (lambda: chain(clamp={-1: 0}), r"site -1 is outside the sequence"),
    "clamp: mask of another length": (lambda: chain(clamp=([True] * 5, [0] * 5)), r"shape \(4,\) or \(2, 4\), not \(5,\)"),
    "clamp: tokens of another length": (lambda: chain(clamp=([True] * L, [0] * 3)), r"not \(3,\)"),
    "clamp: another number of rows": (lambda: chain(clamp=([[True] * L] * 3, [[0] * L] * 3)), r"not \(3, 4\)"),
    # truncation
    "top-p 0": (lambda: chain(top_p=0), r"top-p must lie in \(0, 1\], not 0"),
    "top-p -1": (lambda: chain(top_p=-1), "top-p must lie"),
    "top-p 1.1": (lambda: chain(top_p=1.1), "top-p must lie"),
    "top-p NaN": (lambda: chain(top_p=NAN), "top-p must lie"),
    "temperature 0": (lambda: chain(temperature=0), "temperature must be above 0"),
    "temperature negative": (lambda: chain(temperature=-1.0), "temperature must be above 0"),
    "temperature NaN": (lambda: chain(temperature=NAN), "temperature must be above 0"),
    "temperature infinite": (lambda: chain(temperature=INF), "temperature"),
    "one temperature of several NaN": (lambda: chain(temperature=(1.0, NAN)), "temperature must be above 0"),
    "no temperature": (lambda: chain(temperature=()), "temperature"),
    "top-k 0": (lambda: chain(top_k=0), "top-k must be a whole number of at least 1, not 0"),
    "top-k negative": (lambda: chain(top_k=-3), "top-k must be a whole number of at least 1"),
    "every token banned": (lambda: chain(ban=range(V)), "every token is banned"),
    "banned token too large": (lambda: chain(ban=[V]), r"banned tokens must be whole numbers in 0\.\.2"),
    "banned token negative": (lambda: chain(ban=[-1]), r"banned tokens must be whole numbers in 0\.\.2"),
    "every possible token banned": (
        lambda: Truncation(ban=[0])(torch.tensor([[0.0, -INF, -INF]]), 0, 1),
        "no possible token",
    ),
    # names
    "unknown kernel": (lambda: chain(kernel="gibbs"), "'heat-bath' or 'reversal', not 'gibbs'"),
    "unknown kernel of a bound": (lambda: bound(oracle(), process(), tokens(), "gibbs"), "'reversal', not 'gibbs'"),
    "unknown place to truncate": (lambda: chain(truncate="noise"), "'clean' or 'mixture', not 'noise'"),
    "unknown order": (lambda: process(order="zigzag"), "unknown order 'zigzag'"),
    "unknown clamp rule": (lambda: chain(clamp_rule="soft"), "'exact' or 'paper', not 'soft'"),
    "bound without draws": (lambda: bound(oracle(), process(), tokens(), draws=0), "at least one draw"),
    # schedules
    "block does not divide the length": (lambda: process(block=3), r"block must divide the length \(4\), and 3 does not"),
    "block does not divide the steps": (lambda: Schedule.round_robin(4, 6, block=4), r"the steps \(6\), and 4 does not"),
    "block 0": (lambda: process(block=0), "block must divide"),
    "block negative": (lambda: process(block=-2), "block must divide"),
    "order with a site twice": (lambda: process(order=[0, 1, 1, 3]), r"each of the sites 0\.\.3 exactly once"),
    "order with a site beyond the end": (lambda: process(order=[0, 1, 2, 4]), "exactly once"),
    "order with a negative site": (lambda: process(order=[0, 1, 2, -1]), "exactly once"),
    "order without a site": (lambda: process(order=[0, 1, 2]), "each of the 4 sites exactly once"),
    "no sites": (lambda: Schedule.round_robin(0, 8), "at least 1, not 0 and 8"),
    "no steps": (lambda: Schedule.round_robin(4, 0), "at least 1, not 4 and 0"),
    # numbers of rows
    "num negative": (lambda: chain(-1), "cannot draw -1 samples"),
    "num other than the start's rows": (lambda: chain(3, start=(tokens(), T)), "num is 3, but the start has 2 rows"),
    # options that exclude each other
    "labels and a truncated mixture": (lambda: chain(mark_noise=True, top_p=0.9, truncate="mixture"), "no mixture to truncate"),
    "labels and a step law": (lambda: chain(conditional=KnowsOnlyTheStepLaw(), mark_noise=True), "needs the clean conditional"),
    "a step law truncated as clean": (lambda: chain(conditional=KnowsOnlyTheStepLaw(), top_p=0.9), "truncate='mixture'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_in_one_plain_sentence(mistake):
    make, about = MISTAKES[mistake]
    with refused(about):
        make()


@pytest.mark.parametrize(
    "fine",
    [
        pytest.param(lambda: process().corrupt(tokens(V - 1), T - 1), id="the last token at the last step"),
        pytest.param(lambda: process([0.0, 1.0]), id="keep 0 and 1"),
        pytest.param(lambda: dense(network, process("linear"), tokens()), id="the dense loss with keep 0"),
        pytest.param(lambda: dense(network, process(probs=[0.5, 0.5, 0.0]), tokens()), id="the dense loss with a rare token"),
        pytest.param(lambda: chain(top_p=1, temperature=1, top_k=V + 5, ban=[0, 1]), id="the widest truncation"),
        pytest.param(lambda: chain(top_k=1, top_p=1e-9, temperature=1e-3), id="the narrowest truncation"),
        pytest.param(lambda: chain(0), id="no rows"),
        pytest.param(lambda: chain(start=(tokens(), 0)), id="a start at the end"),
        pytest.param(lambda: chain(None, start=(tokens(), T)), id="a start at T"),
        pytest.param(lambda: chain(start=(tokens(V), T), mark_noise=True), id="a masked start with labels"),
        pytest.param(lambda: chain(clamp={}), id="nothing clamped"),
        pytest.param(lambda: chain(clamp=([True] * L, [V - 1] * L)), id="everything clamped"),
        pytest.param(lambda: chain(clamp=([True, False, False, False], [0, 99, 99, 99])), id="junk where nothing is clamped"),
        pytest.param(lambda: Classifier(network, process()), id="the classifier with keep ½"),
        pytest.param(lambda: Schedule.round_robin(4, 6), id="a sweep and a half"),
    ],
)
def test_what_lies_just_inside_is_not_refused(fine):
    fine()


@pytest.mark.parametrize("token", [1.5, 0.2])
def test_a_clamped_token_that_is_no_whole_number_is_refused(token):
    with refused():
        chain(clamp={0: token})
