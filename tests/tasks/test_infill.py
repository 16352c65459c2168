"""Filling gaps in texts and varying texts: the law of what is drawn, and the bytes of what was given."""

import io
import itertools
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from scipy import stats

from glauber import Model, NoiseLaw, Oracle, PixelCodec, Process, Schedule, Transformer, TransformerConfig, run_chain
from glauber.cli.view import View, wrap
from glauber.codec import ByteCodec, CharCodec, TextCodec, TokenizerCodec, text_codec
from glauber.method.ggm import GGM
from glauber.process.draws import new_generator
from glauber.tasks.constraints import Constraints
from glauber.tasks.gaps import Size, split_gaps
from glauber.tasks.infill import continuing, filling
from glauber.tasks.steps import run_alone
from glauber.tasks.template import Filled, read_template
from glauber.tasks.windows import beyond, windows

FALSE_ALARM = 1e-6  # of each comparison of frequencies; the seeds are fixed, so it cannot come and go


class Exact(GGM):
    """A method whose networks know the exact conditional of a table."""

    def __init__(self, oracle: Oracle):
        self.oracle = oracle

    def conditional(self, network: Any, process: Process, *asked: Any) -> Any:
        return self.oracle


def fills(model: Model, text: str, num: int, seed: int, **options: Any) -> list[Filled]:
    return run_alone(filling(model.sampler(gaps=True), model.require_text_codec(), text, num, new_generator(seed), **options))


def continued(model: Model, prompt: str, num: int, seed: int) -> tuple[list[str], torch.Tensor]:
    return run_alone(continuing(model.sampler(gaps=True), model.require_text_codec(), prompt, num, new_generator(seed)))


def known(length: int, codec: TextCodec, seed: int = 0, end: float = 0.0, sampling: dict[str, Any] | None = None) -> Model:
    """P* is a random table over texts of `length` characters; the end-of-text token has the weight `end` in it."""
    V = codec.vocab
    table = torch.from_numpy(np.random.default_rng(seed).gamma(0.5, size=(V,) * length) + 0.05)
    for site in range(length):
        table.select(site, codec.end).mul_(end)
    noise = NoiseLaw.unigram(torch.arange(1.0, V + 1))
    schedule = Schedule.round_robin(length, 2 * length, "linear")
    network = Transformer(TransformerConfig(V, length, width=8, layers=1, heads=2))
    model = Model(network, Process(schedule, noise), codec, sampling=sampling)
    model.oracle = Oracle(table / table.sum(), noise)
    model.method = Exact(model.oracle)
    return model


def untrained(codec: TextCodec, length: int = 24) -> Model:
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(codec.vocab, length, width=8, layers=1, heads=2))
    torch.nn.init.normal_(network.head.weight)
    return Model(network, Process(Schedule.round_robin(length, length, 0.0), NoiseLaw.uniform(codec.vocab)), codec)


def assert_drawn_from(texts: list[str], law: dict[str, float]) -> None:
    """A chi-square test of the texts' frequencies."""
    assert set(texts) <= {text for text, p in law.items() if p > 0}
    seen = np.array([texts.count(text) for text in law])
    expected = len(texts) * np.array(list(law.values())) / sum(law.values())
    assert expected.min() > 5
    assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM


def law_of(model: Model, pattern: str) -> dict[str, float]:
    """P* of the texts that fit a pattern of the model's length or shorter, "?" for any character; the rest is summed out."""
    alphabet, table = model.codec.alphabet, model.oracle.table
    table = table.sum(tuple(range(len(pattern), table.dim()))) if len(pattern) < table.dim() else table
    choices = [alphabet if c == "?" else c for c in pattern]
    return {"".join(text): table[tuple(map(alphabet.index, text))].item() for text in itertools.product(*choices)}


# The law


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("[[1]]ab[[1]]", "?ab?"), ("b[[2]]a", "b??a"), ("a[[2]]", "a??"), ("[[2]]", "??"), ("[[1]][[2]]b", "???b")],
)
@pytest.mark.parametrize("options", [{}, {"kernel": "reversal"}, {"mark_noise": True, "sweeps": 1}])
def test_the_gaps_are_drawn_from_the_models_law_given_the_rest(text, pattern, options):
    """Sites beyond the text are summed out: they are sampled and dropped."""
    model = known(4, CharCodec("ab"))
    assert_drawn_from(model.infill(text, 4000, seed=1, **options), law_of(model, pattern))


def test_a_long_text_is_filled_through_a_window_around_each_gap_from_left_to_right():
    model = known(3, CharCodec("ab"), seed=3)
    texts = model.infill("abba[[1]]bbba[[1]]", 4000, seed=2)
    assert all(re.fullmatch("abba.bbba.", fill) for fill in texts)
    assert_drawn_from([fill[3:6] for fill in texts], law_of(model, "a?b"))
    assert_drawn_from([fill[-3:] for fill in texts], law_of(model, "ba?"))


def test_a_gap_that_was_filled_is_given_to_the_next_window():
    model = known(3, CharCodec("ab"), seed=4)
    assert windows(6, 3, [slice(3, 4), slice(5, 6)]) == [(2, [slice(3, 4)]), (3, [slice(5, 6)])]
    texts = model.infill("abb[[1]]a[[1]]", 6000, seed=2)
    first = law_of(model, "b?a")
    second = {x: law_of(model, f"{x}a?") for x in "ab"}
    law = {
        f"{x}a{y}": first[f"b{x}a"] * second[x][f"{x}a{y}"] / sum(second[x].values()) for x, y in itertools.product("ab", "ab")
    }
    assert_drawn_from([fill[3:] for fill in texts], law)


def test_windows_hold_their_gap_in_the_middle_and_never_leave_the_text():
    for n, length, start, size in itertools.product((5, 9, 40), (4, 5, 8), range(40), (1, 3, 4)):
        gap = slice(start, start + size)
        if gap.stop > n or n <= length:
            continue
        [(first, held)] = windows(n, length, [gap])
        assert held == [gap]
        assert 0 <= first <= gap.start < gap.stop <= first + length <= n
        before, after = gap.start - first, first + length - gap.stop
        assert abs(before - after) <= 1 or first in (0, n - length)


def test_no_gap_holds_the_end_of_a_text_but_the_sites_beyond_the_text_may():
    model = known(4, CharCodec("ab"), end=3.0)
    seen = []
    filled = fills(model, "a[[2]]", 200, 0, watch=lambda *_, **__: lambda t, x: seen.append(x))
    assert all(len(each.text) == 3 and model.codec.end not in each.gaps[0].tokens for each in filled)
    assert (seen[-1][:, 3] == model.codec.end).any()


def test_a_tokens_probability_is_the_models_given_every_other_site():
    model = known(4, CharCodec("ab"), sampling={"temperature": 0.5})
    for each in fills(model, "a[[1]]b[[1]]", 8, 0, probabilities=True):
        x = model.codec.encode(each.text)
        for gap, site in zip(each.gaps, (1, 3), strict=True):
            others = model.oracle.table[tuple(slice(None) if j == site else x[j] for j in range(4))]
            assert gap.probabilities == [pytest.approx((others[x[site]] / others.sum()).item())]
            assert gap.tokens == [x[site]]
            assert "".join(gap.pieces) == gap.text


def test_beyond_a_short_text_nothing_is_evidence_for_a_token_s_probability():
    model = known(4, CharCodec("ab"))
    table = model.oracle.table.sum(3)  # over what might follow
    for each in fills(model, "a[[1]]b", 8, 0, probabilities=True):
        a, b = model.codec.encode("ab")
        others = table[a, :, b]
        assert each.gaps[0].probabilities == [pytest.approx((others[each.gaps[0].tokens[0]] / others.sum()).item())]


def test_tokens_are_filled_where_the_mask_is_true_each_row_with_its_own():
    model = known(4, CharCodec("ab"))
    x = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]])
    mask = torch.tensor([[False, True, False, False], [True, True, False, False]])
    filled = model.infill_tokens(x, mask, num=3000, seed=0)
    assert filled.shape == (3000, 2, 4)
    assert torch.equal(filled[:, ~mask], x[~mask].expand(3000, -1))
    for row, pattern in enumerate(("a?ba", "??aa")):
        assert_drawn_from([model.codec.decode(each) for each in filled[:, row]], law_of(model, pattern))
    assert model.infill_tokens(x[0, :2], mask[0, :2], seed=0).shape == (2,)


@pytest.mark.parametrize("options", [{}, {"kernel": "reversal"}, {"mark_noise": True, "sweeps": 1}])
@pytest.mark.parametrize(("prompt", "pattern"), [("a", "a???"), ("bab", "bab?")])
def test_samples_with_a_prompt_are_drawn_from_the_models_law_given_their_beginning(prompt, pattern, options):
    model = known(4, CharCodec("ab"))
    assert_drawn_from(model.sample(4000, seed=1, prompt=prompt, **options), law_of(model, pattern))


def test_who_watches_a_prompt_go_on_is_told_which_sites_are_given():
    model, told = known(4, CharCodec("ab")), []

    def watch(given, size, stop):
        told.append((given.tolist(), size, stop))

    run_alone(continuing(model.sampler(gaps=True), model.require_text_codec(), "ab", watch=watch))
    assert told == [([True, True, False, False], 4, 0)]


def test_the_sites_beyond_a_text_and_no_others_are_absent():
    sampler = known(4, CharCodec("ab")).sampler(gaps=True)
    assert [beyond(sampler, size).tolist() for size in (3, 4)] == [[False, False, False, True], [False] * 4]


def test_a_sample_with_a_prompt_may_end_like_any_other():
    model = known(4, CharCodec("ab"), end=3.0)
    texts, tokens = continued(model, "ab", 200, 0)
    assert tokens[:, :2].tolist() == [[0, 1]] * 200
    assert texts == [model.codec.decode(row) for row in tokens.tolist()]
    share = (tokens[:, 2] == model.codec.end).double().mean().item()
    law = model.oracle.table[0, 1].sum(1)
    assert share == pytest.approx((law[model.codec.end] / law.sum()).item(), abs=0.2)


def test_a_variation_of_data_is_data():
    """x_0 ~ P*, noised to step t and brought back, is again from P*: the parts add up to it with the weights of P*."""
    model = known(3, CharCodec("ab"))
    whole = law_of(model, "???")
    for t in (1, 3, 4):
        generator = np.random.default_rng(t)
        counts = generator.multinomial(4000, np.array(list(whole.values())) / sum(whole.values()))
        texts = [
            made
            for k, (text, count) in enumerate(zip(whole, counts, strict=True))
            for made in model.vary(text, t, int(count), seed=k)
        ]
        assert_drawn_from(texts, whole)
    shorter = law_of(model, "??")
    assert_drawn_from(model.vary("ab", 6, 4000, seed=0), shorter)  # at T nothing is left of the text


@pytest.mark.parametrize("options", [{}, {"mark_noise": True}, {"kernel": "heat-bath"}])
def test_a_text_varied_to_step_0_is_itself_and_one_step_changes_one_site(options):
    model = known(4, CharCodec("ab"), end=1.0)
    assert model.vary("abb", 0, 5, seed=0, **options) == ["abb"] * 5
    changed = set(model.vary("abba", 1, 200, seed=0, **options))
    # Seen once, the reversal is sure of a token that survives for certain; the heat bath forgets it.
    assert changed == {"abba", "bbba"} or (changed == {"abba"} and "kernel" not in options)


def test_a_variation_is_as_long_as_its_text_though_the_model_ends_texts():
    model = known(4, CharCodec("ab"), end=1.0)
    assert {len(text) for text in model.vary("ab", 8, 300, seed=0)} == {2}
    assert min(map(len, model.sample(300, seed=0))) < 4


def test_a_variation_weighs_what_stands_there_unless_told_to_forget_it():
    model = known(4, CharCodec("ab"))
    kernels = {"own": {}, "reversal": {"kernel": "reversal"}, "heat-bath": {"kernel": "heat-bath"}}
    kept = {name: np.mean([made == "abba" for made in model.vary("abba", 4, 2000, seed=0, **k)]) for name, k in kernels.items()}
    assert kept["own"] == kept["reversal"] > 1.1 * kept["heat-bath"] > 0


def test_one_fill_is_a_text_and_several_are_a_list_and_the_same_seed_gives_the_same():
    model = known(4, CharCodec("ab"))
    assert model.infill("a[[2]]", seed=3) == model.infill("a[[2]]", 1, seed=3)[0]
    assert model.vary("ab", 4, seed=3) == model.vary("ab", 4, 1, seed=3)[0]
    assert len(set(model.infill("[[4]]", 50, seed=3))) > 4


# The bytes


def t5_like(split: bool) -> TokenizerCodec:
    """A Unigram model behind a metaspace; with `split` all whitespace is one space, as in T5's own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = ["▁it", "▁was", "▁the", "▁of", "▁times", "▁best", "▁", "s", "ing", *"itwasheofmbn"]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((word, -1.0 - len(word) % 3) for word in words)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    steps = [pre_tokenizers.WhitespaceSplit()] * split + [pre_tokenizers.Metaspace()]
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Sequence(steps), decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return TokenizerCodec(tokenizer)


def bpe() -> TokenizerCodec:
    return TokenizerCodec.train(["it was the best of times, it was the worst of times\n" * 20], 300)


WORDS = ["it", "was the ", " best", "of  times", "\r\n", "\n\n", " ", "  ", "\t", "[", "]]", "[[", "\\"]
WORDS += [
    "é",
    "e\u0301",
    "你好",
    "😀",
    "\U0001f469\u200d\U0001f467",
]  # characters of two to four bytes, and signs of several
CODECS = {"char": CharCodec("".join(sorted(set("".join(WORDS))))), "bytes": ByteCodec(), "bpe": bpe()}
LOSSY = {"metaspace": t5_like(split=False), "t5": t5_like(split=True)}


def random_pieces(seed: int) -> tuple[list[str], str]:
    """Given pieces, and the text that asks for a gap between each two of them."""
    draw = random.Random(seed)
    ends, between = ["".join(draw.choices(WORDS, k=draw.randrange(4))) for _ in range(2)], draw.randrange(3)
    pieces = [ends[0], *("".join(draw.choices(WORDS, k=draw.randrange(1, 4))) for _ in range(between)), ends[1]]
    gaps = [f"[[{draw.randrange(1, 5)}]]" for _ in pieces[1:]]
    parts = itertools.zip_longest([piece.replace("[[", "\\[[") for piece in pieces], gaps, fillvalue="")
    return pieces, "".join(itertools.chain.from_iterable(parts))


def tokens_of(text: str, codec: TextCodec, filled: Filled) -> list[int]:
    template = read_template(text, codec, 100)
    tokens = template.tokens.tolist()
    for where, gap in zip(template.gaps, filled.gaps, strict=True):
        tokens[where] = gap.tokens
    return tokens


@pytest.mark.parametrize("name", [*CODECS, *LOSSY])
@pytest.mark.parametrize("length", [64, 6])
def test_what_is_given_comes_back_to_the_byte(name, length):
    codec = (CODECS | LOSSY)[name]
    model = untrained(codec, length)
    for seed in range(12):
        pieces, text = random_pieces(seed)
        assert split_gaps(text)[0] == pieces
        [filled] = fills(model, text, 1, seed)
        assert re.fullmatch("(.*)".join(map(re.escape, pieces)), filled.text, re.DOTALL)
        assert filled.text == "".join(
            part for pair in itertools.zip_longest(pieces, [gap.text for gap in filled.gaps], fillvalue="") for part in pair
        )
        if name in CODECS:  # what comes back is what the tokens say, no more and no less
            said = codec.decode(tokens_of(text, codec, filled))
            assert said == filled.text or (said == " " + filled.text and not pieces[0])  # a word at the very beginning


@pytest.mark.parametrize("name", [*CODECS, *LOSSY])
def test_a_prompt_comes_back_to_the_byte(name):
    codec = (CODECS | LOSSY)[name]
    model = untrained(codec, 64)
    for seed in range(4):
        prompt = "it" + random_pieces(seed)[0][0]
        texts, tokens = continued(model, prompt, 2, seed)
        for text, row in zip(texts, tokens.tolist(), strict=True):
            assert text.startswith(prompt)
            if name in ("char", "bpe"):  # half a character may come out of the other codecs, and join the next
                assert text == codec.decode(row)


def test_the_space_at_the_end_of_a_prompt_is_left_to_the_first_token_that_is_drawn():
    codec = CODECS["bpe"]
    texts, tokens = continued(untrained(codec), "it was the ", 20, 0)
    known = codec.encode("it was the")
    assert tokens[:, : len(known)].tolist() == [known] * 20
    assert all(codec.decode([row[len(known)]]).startswith(" ") for row in tokens.tolist())
    assert texts == [codec.decode(row) for row in tokens.tolist()]


def test_a_fill_in_half_characters_leaves_its_surroundings_whole():
    model = untrained(ByteCodec())
    for seed in range(20):
        filled = model.infill("é[[3]]你😀[[2]]", seed=seed)
        assert filled.startswith("é")
        assert "你😀" in filled


def test_the_space_before_a_gap_is_left_to_the_gaps_first_token():
    codec = CODECS["bpe"]
    template = read_template("it was the [[3]] of times", codec, 100)
    assert template.tokens[:3].tolist() == codec.encode("it was the")
    assert template.gaps == [slice(3, 6)]
    for filled in fills(untrained(codec), "it was the [[3]] of times", 50, 0):
        assert codec.decode(filled.gaps[0].tokens[:1]).startswith(" ")
        assert filled.text == "it was the" + codec.decode(filled.gaps[0].tokens) + " of times"
    assert read_template("it was the [[3]]", CODECS["bytes"], 100).tokens[:11].tolist() == list(b"it was the ")


@pytest.mark.parametrize("name", LOSSY)
def test_a_metaspace_tokenizers_fill_joins_its_surroundings_with_single_spaces(name):
    codec = LOSSY[name]
    model = untrained(codec)
    of = codec.tokenizer.token_to_id("▁of")
    ban = [token for token in range(codec.vocab) if token != of]
    assert model.infill("it was the [[1]] times", seed=0, ban=ban) == "it was the of times"
    assert model.infill("it was the[[1]]times", seed=0, ban=ban) == "it was the of times"
    assert model.infill("[[1]] times[[1]]", seed=0, ban=ban) == "of times of"
    if name == "t5":
        assert model.infill("it was\n\n[[1]]\ttimes", seed=0, ban=ban) == "it was\n\nof\ttimes"


@pytest.mark.parametrize(
    ("text", "pieces", "sizes"),
    [
        ("[[3]]", ["", ""], [3]),
        ("a[[1]][[2]]b", ["a", "b"], [3]),
        (r"\[[3]] [[2]]", ["[[3]] ", ""], [2]),
        (r"\\[[[[1]]", ["\\[[", ""], [1]),
        ("[[[1]]]", ["[", "]"], [1]),
        ("]][[07]] [x]", ["]]", " [x]"], [7]),
    ],
)
def test_gaps_and_plain_brackets_are_told_apart(text, pieces, sizes):
    assert split_gaps(text) == (pieces, [Size(size, size) for size in sizes])


# Watching


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", line)


@pytest.mark.parametrize(("columns", "lines"), [(50, 20), (7, 4), (80, 24)])
def test_a_watched_chain_stays_within_the_terminal_and_ends_in_its_text(monkeypatch, columns, lines):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setattr("glauber.cli.view.PAUSE", 0)
    model, out = untrained(CODECS["bpe"]), io.StringIO()
    view = View(model.codec, model.process.schedule, out)
    [filled] = fills(model, "it was 你好 [[4]] of", 1, 0, watch=view, constraints=Constraints("raw"))
    frames = out.getvalue().split("\033[J")
    steps = model.process.schedule.steps - len(model.codec.encode("it was 你好"))  # then the last gap site has settled
    assert len(frames) == steps + 1
    for frame in frames:
        rows = [plain(row) for row in frame.splitlines() if plain(row)]
        assert len(rows) < lines
        assert all(len(row) + sum(c in "你好" for c in row) <= columns for row in rows)
    if columns == 80:
        last = [plain(row) for row in frames[-1].splitlines()]
        shown = "".join(c for c in filled.text.replace("\n", "↵") if c.isprintable())
        assert last[0] == f"step {steps} of {steps}"
        assert last[1] == shown
    view.clear()
    assert out.getvalue().endswith("A\033[J")


def test_given_sites_are_plain_and_the_site_just_drawn_stands_out():
    codec = CharCodec("ab")
    view = View(codec, Schedule.round_robin(4, 8, "linear"), io.StringIO())
    given = torch.tensor([True, False, False, False])
    line = view.frame(2, torch.tensor([0, 1, 0, 3]), given, None)[1]
    noised, fresh = view.colours[1], "\033[1;7m"
    assert line == f"a{noised}b\033[0m{fresh}a\033[0m·"  # site 1 is half noise, 2 was just drawn, 3 is a mask
    assert view.frame(8, torch.tensor([0, 1, 0, 1]), given, 2)[1] == f"a{view.colours[0]}b\033[0m"


def test_wide_and_combining_characters_take_the_columns_they_need():
    assert [plain(line) for line in wrap([(c, "") for c in "你好e\u0301xyz"], 4)] == ["你好", "e\u0301xyz"]


# Refusals


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        (lambda m: m.infill(""), "the text is empty"),
        (lambda m: m.infill("abab"), "has no gap"),
        (lambda m: m.infill("a[[0]]"), "at least one token"),
        (lambda m: m.infill("a[[x]]"), "is no gap"),
        (lambda m: m.infill("a[[2]"), "is no gap"),
        (lambda m: m.infill("a[[-2]]"), "is no gap"),
        (lambda m: m.infill("a[[5]]"), "a gap of 5 tokens is longer than this model's 4"),
        (lambda m: m.infill("az[[1]]"), "the character 'z'"),
        (lambda m: m.infill("a[[1]]", clamp={0: 0}), "clamp itself"),
        (lambda m: m.infill("a[[1]]", -1), "cannot make -1 fills"),
        (lambda m: m.sample(1, prompt=""), "the prompt is empty"),
        (lambda m: m.sample(1, prompt="abab"), "the prompt has 4 tokens, and this model's rows only 4"),
        (lambda m: m.sample(1, prompt="az"), "the character 'z'"),
        (lambda m: m.sample(1, prompt="a", clamp={0: 0}), "clamp itself"),
        (lambda m: m.sample(1, prompt="a", calls=2), "with a prompt"),
        (lambda m: m.vary("ab", 1, -1), "cannot make -1 variations"),
        (lambda m: m.vary("", 1), "the text is empty"),
        (lambda m: m.vary("ababa", 1), "5 tokens, more than this model's 4"),
        (lambda m: m.vary("ab", 9), "0..8"),
        (lambda m: m.vary("ab", 0.5), "whole number"),
        (lambda m: m.vary("ab", 1, block=2), "multiple of the block"),
        (lambda m: m.infill_tokens(torch.zeros(5, dtype=torch.long), torch.ones(5) > 0), "at most 4 tokens"),
        (lambda m: m.infill_tokens(torch.zeros(4, dtype=torch.long), torch.zeros(4) > 0), "nothing to fill in"),
        (lambda m: m.infill_tokens(torch.zeros(4, dtype=torch.long), torch.ones(3) > 0), "must agree"),
        (lambda m: m.infill_tokens(torch.zeros(4), torch.ones(4) > 0), "whole numbers"),
        (lambda m: m.infill_tokens(torch.full((4,), 9), torch.arange(4) > 0), "0..2"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence(wrong, about):
    with refused(re.escape(about)):
        wrong(known(4, CharCodec("ab")))


def test_a_model_without_text_fills_no_text():
    process = Process(Schedule.round_robin(4, 4, 0.0), NoiseLaw.uniform(3))
    for codec in (None, PixelCodec((2, 2), 3)):
        model = Model(Transformer(TransformerConfig(3, 4, width=8, layers=1, heads=2)), process, codec)
        with refused("no text codec"):
            model.infill("a[[1]]")
        with refused("no text codec"):
            model.vary("a", 1)


def test_the_papers_classifier_fills_gaps_too():
    codec = text_codec("char", ["ab"])
    process = Process(Schedule.round_robin(4, 8, 0.5), NoiseLaw.uniform(3))
    network = Transformer(TransformerConfig(3, 4, width=8, layers=1, heads=2, conditioning="time"))
    model = Model(network, process, codec, method="ggm-binary")
    [filled] = fills(model, "a[[2]]b", 1, 0, probabilities=True)
    assert re.fullmatch("a[ab]{2}b", filled.text)
    assert len(filled.gaps[0].probabilities) == 2


@pytest.mark.parametrize(
    ("order", "block", "sweeps"), [("right-to-left", 1, 2), ("left-to-right", 1, 1), ("left-to-right", 2, 2), ("strided", 4, 2)]
)
def test_a_chain_that_stops_when_the_gaps_have_settled_has_filled_them_as_the_whole_one(order, block, sweeps):
    model = untrained(CODECS["char"])
    L = model.process.length
    wanted = torch.zeros(L, dtype=torch.bool)
    wanted[3:5] = True
    schedule = model.sampler(sweeps=sweeps, block=block, order=order).schedule
    stop = schedule.settled(wanted)
    visits = [t for t in range(schedule.steps) if wanted[schedule.site(t)]]
    assert stop == min(visits) // block * block
    states = {}
    options = {"generator": torch.Generator().manual_seed(0), "clamp": (~wanted, torch.zeros(L, dtype=torch.int64))}
    process = Process(schedule, model.process.noise)
    whole = run_chain(model.conditional, process, 2, on_step=lambda t, x: states.setdefault(t, x), **options)
    stopped = run_chain(model.conditional, process, 2, stop=stop, **options | {"generator": torch.Generator().manual_seed(0)})
    assert torch.equal(stopped, states[stop])
    assert torch.equal(stopped[:, wanted], whole[:, wanted])


@pytest.mark.parametrize("stop", [-1, 1, 9, 0.0])
def test_a_last_step_that_is_none_of_the_chains_is_refused(stop):
    process = Process(Schedule.round_robin(4, 8, "linear", block=2), NoiseLaw.uniform(3))
    with pytest.raises(ValueError, match="the last step must lie in"):
        run_chain(Oracle(torch.full((3,) * 4, 1 / 81, dtype=torch.float64), process.noise), process, 1, stop=stop)


@pytest.mark.parametrize("mark_noise", [False, True])
def test_the_law_of_a_chain_with_absent_sites_is_that_of_the_others(mark_noise):
    torch.manual_seed(0)
    table = torch.rand(2, 2, 2, dtype=torch.float64)
    table /= table.sum()
    noise = NoiseLaw.uniform(2)
    process = Process(Schedule.round_robin(3, 9, [0.5, 0.6, 0.0], "left-to-right"), noise)
    asked = []
    oracle = Oracle(table, noise)

    def counted(x, t, survival, sites):
        asked.append(sites.flatten())
        return oracle(x, t, survival, sites)

    away = torch.tensor([False, True, False])
    generator = torch.Generator().manual_seed(0)
    x = run_chain(counted, process, 20_000, absent=away, mark_noise=mark_noise, generator=generator)
    assert 1 not in torch.cat(asked).tolist()
    seen = torch.bincount(x[:, 0] * 2 + x[:, 2], minlength=4).numpy()
    assert stats.chisquare(seen, 20_000 * table.sum(1).flatten().numpy()).pvalue > FALSE_ALARM


def test_absent_sites_that_make_no_sense_are_refused():
    model = untrained(CODECS["char"])
    for absent in (torch.zeros(3, dtype=torch.bool), torch.zeros(model.process.length)):
        with pytest.raises(ValueError, match=r"give as many booleans|a mask of booleans"):
            run_chain(model.conditional, model.process, 1, absent=absent)
