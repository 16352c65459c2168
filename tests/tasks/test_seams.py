"""Where a fill meets what is given, which fills are chosen, and what they must not hold."""

import itertools
import re

import pytest
import torch
from refusals import refused

from glauber import Model, NoiseLaw, Oracle, Process, Schedule, Transformer, TransformerConfig
from glauber.codec import CharCodec, TextCodec, TokenizerCodec
from glauber.method.ggm import GGM
from glauber.process.draws import new_generator
from glauber.tasks.constraints import Choice, Constraints
from glauber.tasks.infill import filling, nats_per_character
from glauber.tasks.queries import text_nats
from glauber.tasks.seams import seam_sites, token_kinds, whole
from glauber.tasks.steps import run_alone
from glauber.tasks.template import Filled, template_of

RAW = Constraints(seams="raw")


class Exact(GGM):
    """A method whose networks know the exact conditional of a table."""

    def __init__(self, oracle: Oracle):
        self.oracle = oracle

    def conditional(self, *asked):
        return self.oracle


def language(words: list[str], length: int) -> Model:
    """Texts of these words with blanks between, each window of them as likely as the others; a little of all else."""
    codec = CharCodec(" abc")
    table = torch.full((codec.vocab,) * length, 1e-7, dtype=torch.float64)
    for chosen in itertools.product(words, repeat=length):
        text = " ".join(chosen)
        for start in range(len(words[0]) + 1):
            table[tuple(codec.encode(text[start : start + length]))] += 1
    noise = NoiseLaw.uniform(codec.vocab)
    network = Transformer(TransformerConfig(codec.vocab, length, width=8, layers=1, heads=2))
    model = Model(network, Process(Schedule.round_robin(length, length, 0.0, "left-to-right"), noise), codec)
    model.method = Exact(Oracle(table / table.sum(), noise))
    return model


def causal_model(codec: TextCodec, length: int) -> Model:
    """Random weights; its own chain is causal."""
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(codec.vocab, length, width=16, layers=1, heads=2, causal=True))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    process = Process(Schedule.round_robin(length, length, 0.0, "left-to-right"), NoiseLaw.uniform(codec.vocab))
    return Model(network, process, codec)


def fills(model: Model, text: str, num: int, seed: int = 0, sampler=None, **options) -> list[Filled]:
    steps = filling(sampler or model.sampler(gaps=True), model.codec, text, num, new_generator(seed), **options)
    return run_alone(steps)


BPE = TokenizerCodec.train(["it was the best of times, it was the worst of times.\n" * 20], 300)


def test_a_seam_is_whole_where_the_language_has_such_words():
    """Words of two letters: every fill of two sites, in a text whose other words are whole."""
    model = language(["ab", "ca"], 5)
    codec, seen = model.codec, {}
    template = template_of(["ab", ""], [3], codec)
    sites = seam_sites(template, template.gaps)
    assert sites == [2, 5]
    for fill in (" ca", " ab", "cab", "aab"):
        x = torch.tensor([codec.encode("ab" + fill)])
        seen[fill] = whole(model.sampler(gaps=True), codec, [sites], x, torch.ones_like(x, dtype=torch.bool)).item()
    assert seen == {" ca": True, " ab": True, "cab": False, "aab": False}


def test_a_fill_that_cuts_a_word_is_drawn_again():
    """In a language of two-letter words a gap of one site before a blank is filled with the end of a word alone."""
    model = language(["ab", "ca"], 5)
    flat = model.sampler(gaps=True, temperature=50.0)  # which would write anything
    raw = fills(model, "a[[1]] ab", 200, sampler=flat, constraints=RAW)
    joined = fills(model, "a[[1]] ab", 200, sampler=flat)
    letters = ["".join(gap.text for gap in each.gaps) for each in joined]
    assert {each.gaps[0].text for each in raw} == set(" abc")
    assert letters.count("b") > 190  # the others had bad luck in every round
    assert min(each.calls for each in joined) > 1  # the seam was looked at


def test_no_blank_stands_beside_a_blank_unless_the_fill_is_raw():
    model, text = causal_model(BPE, 24), "it was the [[3]] of times,\n[[2]]\tit [[1]] the"

    def with_doubled(**options) -> int:
        return sum(
            any(text[at - 1 : at].isspace() and text[at : at + 1].isspace() for at in ends_of(text, each))
            for each in fills(model, text, 100, **options)
            for text in [each.text]
        )

    assert with_doubled() == 0
    assert with_doubled(constraints=RAW) > 0


def ends_of(text: str, filled: Filled) -> list[int]:
    """Where its gaps begin and end."""
    places, at = [], 0
    for gap, before in zip(filled.gaps, ["it was the ", " of times,\n", "\tit "], strict=True):
        places += [at + len(before), at + len(before) + len(gap.text)]
        at = places[-1]
    assert text[: places[0]] == "it was the "
    return places


def test_a_text_that_begins_with_a_gap_begins_with_a_word_and_without_a_blank():
    model = causal_model(BPE, 24)
    joined = fills(model, "[[2]] of times", 40)
    assert all(not each.text[0].isspace() for each in joined)
    assert all(BPE.decode(each.gaps[0].tokens).startswith(" ") for each in joined)
    raw = fills(model, "[[2]] of times", 40, constraints=RAW)
    assert any(not BPE.decode(each.gaps[0].tokens).startswith(" ") for each in raw)


def test_a_token_goes_on_with_a_word_where_it_begins_with_a_letter_a_digit_or_an_apostrophe():
    kinds = dict(zip(" 'ab", token_kinds(CharCodec(" 'ab")).tolist(), strict=False))
    assert kinds == {" ": 0, "'": 1, "a": 1, "b": 1}
    assert set(token_kinds(BPE).tolist()) == {0, 1, -1}  # halves of characters are not known


def test_the_best_of_many_are_the_likeliest_per_character_the_best_first():
    model = causal_model(CharCodec("ab "), 8)
    every = fills(model, "a[[3]]b", 12, choice=Choice(12))
    assert [each.text for each in fills(model, "a[[3]]b", 2, choice=Choice(12))] == [each.text for each in every[:2]]
    assert {each.text for each in every} == {each.text for each in fills(model, "a[[3]]b", 12)}
    scores = [nats_per_character(each) for each in every]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    for each in every:
        alone = text_nats(model.sampler(gaps=True), torch.tensor([model.codec.encode(each.text)]))
        assert each.nats == pytest.approx(alone.sum().item())
        assert each.gaps[0].nats == pytest.approx(alone[0, 1:4].tolist())
    assert model.infill("a[[3]]b", seed=0, best_of=12) == every[0].text


def test_the_likelihood_of_a_text_longer_than_a_row_is_that_of_its_windows():
    model = causal_model(CharCodec("ab"), 4)
    (each,) = fills(model, "abba[[2]]baab", 1, probabilities=True)
    tokens = torch.tensor([model.codec.encode(each.text)])
    sampler = model.sampler(gaps=True)
    total = 0.0
    for part in tokens.split(4, 1):
        size = part.shape[1]
        total -= sampler.log_likelihoods(torch.nn.functional.pad(part, (0, 4 - size)))[:, :size].sum().item()
    assert each.nats == pytest.approx(total)


def test_no_fill_has_a_banned_word_capital_or_not_and_what_is_given_may_have_it():
    model = causal_model(CharCodec("abB "), 8)
    raw = fills(model, "b [[3]] b", 200, constraints=RAW)
    banned = fills(model, "b [[3]] b", 200, constraints=Constraints(seams="raw", banned=["b", "aa"]))
    words = re.compile(r"(?<!\w)(b|aa)(?!\w)", re.IGNORECASE)
    assert any(words.search(each.gaps[0].text) for each in raw)
    assert not any(words.search(each.gaps[0].text) for each in banned)
    assert {each.text[:2] + each.text[-2:] for each in banned} == {"b  b"}


def test_a_banned_word_that_forms_at_a_seam_is_banned_too():
    model = causal_model(CharCodec("ab"), 8)
    for text in ("a[[1]]", "a[[1-2]]"):
        found = fills(model, text, 60, constraints=Constraints(seams="raw", banned=["ab"]))
        assert not any(each.text == "ab" for each in found)
        assert any(each.text == "aa" for each in found)


def test_words_that_leave_no_fill_are_refused_in_one_sentence():
    model = causal_model(CharCodec("ab"), 8)
    for text in ("[[1]]", "[[1-2]]"):
        with refused("banned word"):
            model.infill(text, seed=0, banned=["a", "b", "aa", "ab", "ba", "bb"])


def test_a_gap_that_ends_with_the_sentence_holds_one_end_of_it_its_last_token():
    model = causal_model(CharCodec("ab. "), 8)
    for text in ("a[[1-4]] b", "a[[3]] b", "a [[ ]]"):
        for each in fills(model, text, 40, constraints=Constraints(sentence=True)):
            assert re.fullmatch(r"[ab ]*\.", each.gaps[0].text)


def test_a_gap_that_no_token_fits_is_refused_before_anything_is_drawn():
    """A single token would have to begin with a space and end the sentence."""
    model = causal_model(BPE, 24)
    for text in ("it was [[1]] of", "it was [[1-3]] of"):
        with refused("no token fits a gap of 1 as wanted; make it longer, from 2 tokens on"):
            model.infill(text, sentence=True)
    assert fills(model, "it was [[2-3]] of", 3, constraints=Constraints(sentence=True))


def test_no_fills_are_no_fills():
    model = causal_model(BPE, 24)
    for text in ("it was [[2]] of", "it was [[1-3]] of"):
        assert model.infill(text, 0) == []
