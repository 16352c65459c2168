"""Gibbs sampling with a masked language model: the time-independent chain, and transformers' models as conditionals of it."""

import shutil
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from driving import driver_step
from enumeration import HEAT_BATH, World, random_law, ratio, tv
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from glauber import NoiseLaw, Oracle, Process, Schedule, TransformerConfig, run_chain
from glauber.method import METHODS, MaskedLM, Request, gibbs_process

V, L = 3, 3
WORLD = World(random_law(V**L, 7, 0.4), np.full(V, 1 / V), [2, 1, 0], [1.0] * L)
ORACLE = Oracle(torch.from_numpy(WORLD.table).reshape((V,) * L), NoiseLaw.uniform(V))

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = SPECIAL + [f"w{k}" for k in range(11)]
ROWS = len(WORDS) + 4  # of the model's vocabulary; the last four are padding


# ---- the chain


def sweep() -> np.ndarray:
    """The transition of one sweep of the real run_chain, its uniforms integrated exactly."""
    process = gibbs_process(V, L, 1)
    steps = [driver_step(WORLD, process, ORACLE, t, HEAT_BATH) for t in reversed(range(L))]
    return reduce(np.matmul, steps)


def test_a_gibbs_sweep_leaves_the_data_s_law_as_it_is_and_does_not_reach_it_from_noise():
    matrix = sweep()
    np.testing.assert_allclose(WORLD.table @ matrix, WORLD.table, rtol=0, atol=1e-10)
    once = WORLD.noise @ matrix
    assert tv(once, WORLD.table) > 0.01
    assert tv(WORLD.noise @ np.linalg.matrix_power(matrix, 200), WORLD.table) < 1e-6  # it does in the end


def test_a_gibbs_sweep_draws_each_site_from_left_to_right_given_all_others():
    """By the definition of Gibbs sampling, from the table alone."""
    expected = np.eye(WORLD.N)
    for site in range(L):
        expected = expected @ ratio(WORLD.same_off[site] * WORLD.table)
    np.testing.assert_allclose(sweep(), expected, rtol=0, atol=1e-10)


def test_an_exact_reversal_reaches_in_one_sweep_what_gibbs_does_not():
    """So that the difference is the method's: the same oracle on a schedule that ends in noise is exact."""
    world = World(WORLD.table, WORLD.pi, [2, 1, 0], [0.0] * L)
    process = Process(Schedule.round_robin(L, L, keep=0.0, order="left-to-right"), NoiseLaw.uniform(V))
    law = world.noise
    for t in reversed(range(L)):
        law = law @ driver_step(world, process, ORACLE, t, HEAT_BATH, support=law > 0)
    np.testing.assert_allclose(law, WORLD.table, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sweeps", [1, 3])
def test_every_step_of_a_gibbs_chain_asks_and_all_sites_are_told_as_clean(sweeps):
    seen = []

    def asked(x, t, survival, sites):
        seen.append((int(sites[0, 0]), len(x), bool((survival == 1).all())))
        return ORACLE(x, t, survival, sites)

    run_chain(asked, gibbs_process(V, L, sweeps), 5, generator=torch.Generator().manual_seed(0))
    assert seen == [(site, 5, True) for _ in range(sweeps) for site in range(L)]


@pytest.mark.parametrize("order", ["right-to-left", [1, 2, 0]])
def test_gibbs_sampling_with_a_number_of_calls_writes_in_the_order_that_is_asked(order):
    """As many whole sweeps."""
    own = gibbs_process(V, L, 1)
    schedule = METHODS["mlm"].plan(own.schedule, TransformerConfig(V, L), Request(calls=2 * L, order=order)).schedule
    seen = []

    def asked(x, t, survival, sites):
        seen.append(int(sites[0, 0]))
        return ORACLE(x, t, survival, sites)

    run_chain(asked, Process(schedule, own.noise), 2, generator=torch.Generator().manual_seed(0))
    assert seen == 2 * ([2, 1, 0] if order == "right-to-left" else order)


# ---- a model of transformers


def tokenizer(mask: bool = True) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(word, WORDS.index(word)) for word in ("[CLS]", "[SEP]")]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **names, **({"mask_token": "[MASK]"} if mask else {}))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=ROWS, max_position_embeddings=16, initializer_range=1.0, **shape))
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def conditional(bert: Path) -> MaskedLM:
    return MaskedLM(str(bert))


def query(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of ordinary words, and what else a chain tells."""
    x = torch.randint(len(SPECIAL), len(WORDS), (4, 6), generator=torch.Generator().manual_seed(seed))
    return x, torch.zeros(4, dtype=torch.int64), torch.ones(4, 6, dtype=torch.float64)


@torch.no_grad()
def test_a_masked_language_model_answers_what_it_says_of_a_text_with_a_mask_in_it(conditional, bert):
    """Row by row, from words, through transformers alone."""
    model, words = BertForMaskedLM.from_pretrained(bert).eval(), tokenizer()
    x, t, survival = query()
    sites = torch.tensor([[0], [2], [5], [3]])
    answer = conditional(x, t, survival, sites)
    ordinary = range(len(SPECIAL), len(WORDS))
    for row, (site,) in enumerate(sites.tolist()):
        text = [WORDS[token] for token in x[row].tolist()]
        text[site] = "[MASK]"
        ids = words(" ".join(text), return_tensors="pt")["input_ids"]
        assert ids[0, 0] == WORDS.index("[CLS]")
        assert ids[0, -1] == WORDS.index("[SEP]")
        law = model(input_ids=ids).logits[0, site + 1, list(ordinary)].double().log_softmax(-1)
        torch.testing.assert_close(answer[row, 0, list(ordinary)], law, rtol=0, atol=1e-5)


@torch.no_grad()
def test_what_stands_at_the_asked_sites_does_not_matter_and_what_stands_elsewhere_does(conditional):
    x, t, survival = query()
    sites = torch.tensor([[1, 4]]).expand(4, -1)
    answer = conditional(x, t, survival, sites)
    assert answer.shape == (4, 2, ROWS)
    assert torch.equal(conditional(x.index_fill(1, sites[0], 7), t, survival * 0.5, sites), answer)
    moved = conditional(x.index_fill(1, torch.tensor([2]), 7), t, survival, sites) - answer
    changed = x[:, 2] != 7
    assert changed.any()
    assert (moved.nan_to_num().abs().amax((1, 2)) > 1e-6).equal(changed)


def test_special_tokens_and_padding_are_never_drawn(conditional):
    x, t, survival = query()
    law = conditional(x, t, survival, torch.zeros(4, 1, dtype=torch.int64)).exp()
    ordinary = torch.zeros(ROWS, dtype=torch.bool)
    ordinary[len(SPECIAL) : len(WORDS)] = True
    assert torch.equal(law > 0, ordinary.expand(4, 1, -1))
    torch.testing.assert_close(law.sum(-1), torch.ones(4, 1, dtype=torch.float64))
    drawn = run_chain(conditional, gibbs_process(conditional.vocab, 6, 2), 8, generator=torch.Generator().manual_seed(0))
    assert ordinary[drawn].all()


def test_what_is_no_masked_language_model_is_refused_in_one_sentence(bert, tmp_path):
    with pytest.raises(
        ValueError, match=r"^no masked language model in .*none: it needs config\.json, safetensors and a tokenizer$"
    ):
        MaskedLM(str(tmp_path / "none"))
    with pytest.raises(
        ValueError, match=r"^no masked language model in .*: it needs config\.json, safetensors and a tokenizer$"
    ):
        MaskedLM(str(tmp_path))
    pickled = Path(shutil.copytree(bert, tmp_path / "pickled"))
    torch.save(BertForMaskedLM.from_pretrained(bert).state_dict(), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"^no masked language model in .*pickled: it needs config\.json, safetensors"):
        MaskedLM(str(pickled))
    maskless = tmp_path / "maskless"
    BertForMaskedLM.from_pretrained(bert).save_pretrained(maskless)
    tokenizer(mask=False).save_pretrained(maskless)
    with pytest.raises(ValueError, match=r"^the tokenizer in .*maskless has no mask token"):
        MaskedLM(str(maskless))
