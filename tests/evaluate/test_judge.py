"""Text scored by causal language models: against a loop that asks for one token at a time, and killed in the middle."""

import json
import math

import numpy as np
import pytest
import torch
from judges import CONTEXT, STORY, language_model, save_gguf, save_judge, tokenizer
from refusals import refused
from tokenizers import processors

from glauber.evaluate.encoder import Encoder
from glauber.evaluate.infill import Fill, given_both_sides, read_fills, recovery
from glauber.evaluate.judge import Judge, perplexities, windows
from glauber.evaluate.score_cache import ScoreCache, TextScore

TEXTS = [STORY[:40], STORY[30:110], STORY[100:117], "caf\u00e9 \u4f60\u597d", STORY[200:231], STORY[5:25]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_judge(tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="module")
def judge(folder):
    return Judge(str(folder))


def log_probability(ids: list[int], context: int | None = None) -> float:
    """Σ_{l≥2} log P(x_l | x_<l), a call for each token, in float64; only the last `context` tokens are shown."""
    model = language_model(tokenizer().get_vocab_size()).double()
    total = 0.0
    for place in range(1, len(ids)):
        shown = ids[: place + 1][-context:] if context else ids[: place + 1]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([shown[:-1]])).logits[0, -1]
        total += (logits[ids[place]] - logits.logsumexp(0)).item()
    return total


def test_the_nll_is_that_of_a_loop_over_single_tokens(judge):
    for text, score in zip(TEXTS, judge.scores(TEXTS), strict=True):
        ids = tokenizer().encode(text).ids
        assert score.tokens == len(ids) <= CONTEXT
        assert score.nll == pytest.approx(-log_probability(ids), rel=1e-5)
        assert score.characters == len(text) - len(tokenizer().decode(ids[:1]))


def test_a_gguf_file_of_the_same_model_gives_the_same_figures(judge, tmp_path):
    other = Judge(str(save_gguf(tmp_path / "model.gguf")))
    assert other.name == "model.gguf"
    assert other.tokens(TEXTS) == judge.tokens(TEXTS)
    for ours, theirs in zip(other.scores(TEXTS), judge.scores(TEXTS), strict=True):
        assert ours.nll == pytest.approx(theirs.nll, rel=1e-5)


def test_both_perplexities_follow_their_formulas():
    scores = [TextScore(6.0, 3, 10), TextScore(1.5, 5, 20), TextScore(8.0, 4, 7)]
    found = perplexities(scores)
    assert found["perplexity_paper"] == pytest.approx((math.exp(2) + math.exp(0.3) + math.exp(2)) / 3)
    assert found["perplexity"] == pytest.approx(math.exp(15.5 / (2 + 4 + 3)))
    assert found["bits_per_character"] == pytest.approx(15.5 / math.log(2) / 37)


def test_windows_judge_every_token_but_the_first_once():
    for length in range(2, 40):
        for context in (2, 3, 8, 50):
            cut = list(windows(length, context))
            evaluated = [place for begin, end, first in cut for place in range(first, end)]
            assert evaluated == list(range(1, length))
            assert all(end - begin <= context for begin, end, _ in cut)
            assert all(first - begin >= min(context // 2, first) for begin, _, first in cut), "with half a window before it"


def test_a_text_longer_than_the_judges_context_is_read_in_windows(judge):
    text = STORY[:300]
    ids = tokenizer().encode(text).ids
    assert len(ids) > 1.5 * CONTEXT
    model = language_model(tokenizer().get_vocab_size())
    expected, done = 0.0, 1
    for begin in range(0, len(ids), CONTEXT // 2):
        part = torch.tensor(ids[begin : begin + CONTEXT])
        with torch.no_grad():
            logs = model(input_ids=part[None]).logits[0].double().log_softmax(-1)
        for place in range(done, begin + len(part)):
            expected -= logs[place - begin - 1, ids[place]].item()
            done = place + 1
    assert done == len(ids)
    (score,) = judge.scores([text], features=True)
    assert score.nll == pytest.approx(expected, rel=1e-5)
    assert score.tokens == len(ids)


def test_the_feature_is_the_last_hidden_state_at_the_last_token(judge):
    model = language_model(tokenizer().get_vocab_size())
    for text, score in zip(TEXTS, judge.scores(TEXTS, features=True), strict=True):
        with torch.no_grad():
            states = model.model(input_ids=torch.tensor([tokenizer().encode(text).ids])).last_hidden_state[0]
        np.testing.assert_allclose(score.feature, states[-1].numpy(), rtol=1e-4, atol=1e-5)


def test_a_start_token_that_the_judge_wants_is_read_but_not_scored(folder, tmp_path):
    other = save_judge(tmp_path / "with start")
    made = tokenizer()
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(other / "tokenizer.json"))
    judge = Judge(str(other))
    (score,) = judge.scores(TEXTS[:1])
    ids = tokenizer().encode(TEXTS[0]).ids
    assert score.tokens == len(ids)
    assert judge.tokens(TEXTS[:1]) == [ids]
    assert score.nll == pytest.approx(log_probability([0, *ids[:1]]) - log_probability([0, *ids]), rel=1e-5)


def test_judging_goes_on_after_a_kill_to_the_same_figures(judge, tmp_path):
    texts = [STORY[k : k + 25 + 3 * k] for k in range(40)]
    whole, path = tmp_path / "whole", tmp_path / "partial"
    expected = judge.scores(texts, True, ScoreCache(whole))
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == len(texts)
    for kept, torn in ((0, 7), (1, 0), (13, 50), (39, 1)):
        path.write_bytes(b"".join(lines[:kept]) + lines[kept][:torn])
        found = judge.scores(texts, True, ScoreCache(path))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours[:3] == theirs[:3], "bit for bit"
            assert np.array_equal(ours.feature, theirs.feature)
        assert len(ScoreCache(path).known) == len(texts), "and the file can be read again"


def test_what_a_cache_has_is_not_scored_again_and_another_judge_is_not_believed(judge, tmp_path):
    judge.scores(TEXTS, cache=ScoreCache(tmp_path / "cache"))
    lines = [json.loads(line) for line in (tmp_path / "cache").read_bytes().splitlines()]
    for line in lines:
        line[1] = 123.0
    (tmp_path / "cache").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert {score.nll for score in judge.scores(TEXTS, cache=ScoreCache(tmp_path / "cache"))} == {123.0}
    other = Judge(str(save_judge(tmp_path / "other", seed=1)))
    assert 123.0 not in {score.nll for score in other.scores(TEXTS, cache=ScoreCache(tmp_path / "cache"))}


def test_a_file_that_is_no_cache_is_refused_and_left_as_it_was(tmp_path):
    for content in (b"my notes\n", b"[1]\n", b'["a", null, 1, 2, null]\n, and more'):
        (tmp_path / "notes").write_bytes(content)
        with refused("remove it, or name another --out"):
            ScoreCache(tmp_path / "notes")
        assert (tmp_path / "notes").read_bytes() == content


def test_an_encoder_gives_the_mean_of_its_last_hidden_states(folder):
    found = Encoder(str(folder)).features(TEXTS)
    model = language_model(tokenizer().get_vocab_size())
    for row, text in zip(found, TEXTS, strict=True):
        with torch.no_grad():
            states = model.model(input_ids=torch.tensor([tokenizer().encode(text).ids])).last_hidden_state[0]
        np.testing.assert_allclose(row, states.mean(0).numpy(), rtol=1e-4, atol=1e-5)


def test_a_fill_is_scored_with_what_follows_given_what_precedes(judge):
    fills = [
        Fill("The old house ", "sat", "stood", " at the end"),
        Fill("", "Who", "He", " went in"),
        Fill("He", " is", " ran", ""),
    ]
    for middles, which in zip(given_both_sides(judge, fills), (1, 2), strict=True):
        for found, fill in zip(middles, fills, strict=True):
            whole = tokenizer().encode(fill.prefix + fill[which] + fill.suffix).ids
            before = tokenizer().encode(fill.prefix).ids
            assert found == pytest.approx(log_probability(before) - log_probability(whole), rel=1e-5)


def test_recovery_counts_the_places_with_the_true_token():
    assert recovery([1, 2, 3, 4], [1, 9, 3, 9]) == 0.5
    assert recovery(["a"], ["a", "b"]) == 0.5
    with refused("at least one token"):
        recovery([1], [])


def test_damaged_fills_are_refused(tmp_path):
    path = tmp_path / "fills.jsonl"
    for line in ("", "{}", "[1]", "no", '{"prefix": 1, "fill": "a", "truth": "b", "suffix": ""}'):
        path.write_text(line + "\n")
        with refused("not JSON" if line == "no" else "prefix, fill, truth and suffix"):
            read_fills(path)


def without_weights(folder):
    (folder / "model.safetensors").unlink()


def with_torn_weights(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def with_too_few_weights(folder):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def as_another_kind(folder):
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"architectures": ["LlamaForSequenceClassification"]}))


def without_tokenizer(folder):
    for path in folder.glob("tokenizer*"):
        path.unlink()


@pytest.mark.parametrize(
    "damage",
    [without_weights, with_torn_weights, with_too_few_weights, as_another_kind, without_tokenizer],
    ids=lambda f: f.__name__,
)
def test_a_judge_that_is_not_whole_is_refused(tmp_path, damage):
    folder = save_judge(tmp_path / "judge")
    damage(folder)
    with refused("judge"):
        Judge(str(folder))


@pytest.mark.parametrize("kind", [Judge, Encoder])
def test_weights_in_a_pickle_are_refused_and_never_read_beside_others(kind, tmp_path):
    folder = save_judge(tmp_path / "judge")
    torch.save(language_model(tokenizer().get_vocab_size()).state_dict(), folder / "pytorch_model.bin")
    weights = (folder / "model.safetensors").read_bytes()
    kind(str(folder))
    (folder / "model.safetensors").unlink()
    with refused("a pickle that could run any code; save them as safetensors"):
        kind(str(folder))
    (folder / "other.safetensors").write_bytes(weights)
    with refused("cannot be read"):
        kind(str(folder))


def test_what_is_no_judge_is_refused(tmp_path, judge):
    with refused("no config.json"):
        Judge(str(tmp_path))
    for missing in (tmp_path / "none", tmp_path / "none.gguf"):
        with refused("there is no"):
            Judge(str(missing))
    (tmp_path / "model.gguf").write_bytes(b"not one")
    with refused("not a GGUF file"):
        Judge(str(tmp_path / "model.gguf"))
    whole = save_gguf(tmp_path / "whole.gguf").read_bytes()
    for size in (4, 100, 2000, len(whole) - 3000):
        (tmp_path / "torn.gguf").write_bytes(whole[:size])
        with refused("cannot be read"):
            Judge(str(tmp_path / "torn.gguf"))
    with refused("fewer than two tokens"):
        judge.scores([STORY, "a"])
