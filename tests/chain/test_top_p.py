"""Top-p keeps the fewest most likely tokens, whether a few of them suffice or all must be sorted."""

import pytest
import torch

from glauber.chain.truncation import FEW, keep_top_p

V = 3 * FEW


def by_hand(law, top_p):
    """Token after token, the most likely first, until their probabilities reach top_p."""
    kept, mass = [0.0] * len(law), 0.0
    for token in sorted(range(len(law)), key=lambda token: -law[token]):
        if mass >= top_p:
            break
        kept[token] = law[token]
        mass += law[token]
    return [value / sum(kept) for value in kept]


def laws(vocab, rows=12):
    """From nearly certain to nearly uniform, so that some rows need few tokens and others many; no two tokens alike."""
    generator = torch.Generator().manual_seed(vocab)
    spread = torch.logspace(1.3, -1, rows).double()[:, None]
    return (spread * torch.randn(rows, vocab, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.mark.parametrize("vocab", [2, 5, FEW, FEW + 1, V])
@pytest.mark.parametrize("top_p", [1e-9, 0.2, 0.5, 0.9, 0.999])
def test_the_fewest_most_likely_tokens_are_kept(vocab, top_p):
    law = laws(vocab)
    found = keep_top_p(law, top_p)
    for k in range(len(law)):
        torch.testing.assert_close(found[k], torch.tensor(by_hand(law[k].tolist(), top_p), dtype=law.dtype), rtol=1e-12, atol=0)
    if vocab == V and top_p == 0.9:
        number = (found > 0).sum(-1)
        assert number.min() < FEW < number.max()  # both ways were taken, in one call


def test_rows_do_not_depend_on_the_rows_beside_them_nor_on_the_shape():
    law = laws(V)
    together = keep_top_p(law, 0.9)
    assert torch.equal(together, torch.cat([keep_top_p(row[None], 0.9) for row in law]))
    assert torch.equal(together.view(4, 3, V), keep_top_p(law.view(4, 3, V), 0.9))
    assert torch.equal(together[0], keep_top_p(law[0], 0.9))
    assert keep_top_p(law[:0], 0.9).shape == (0, V)


@pytest.mark.parametrize("vocab", [FEW, V])
def test_of_tokens_that_are_alike_as_many_are_kept_as_are_needed(vocab):
    law = torch.full((2, vocab), 1 / 128, dtype=torch.float64)
    law[:, 128:] = 0.0
    law = law[:, torch.randperm(vocab, generator=torch.Generator().manual_seed(0))]
    found = keep_top_p(law, 0.75)
    assert ((found > 0).sum(-1) == 96).all()
    assert (found[found > 0] == 1 / 96).all()
    assert (law[found > 0] > 0).all()


def test_a_law_that_is_none_stays_none():
    law = laws(V)
    law[3] = torch.nan
    found = keep_top_p(law, 0.9)
    assert found[3].isnan().all()
    assert not found[[0, 11]].isnan().any()
