"""The measures of filling gaps: the law of the length, words at seams."""

import itertools

import pytest


def test_the_distance_of_the_law_of_k_draws_to_the_exact_one_falls_with_k(experiment):
    """1, 4, 16 and 64 draws; measured 0.75, 0.56, 0.33 and 0.19 on a network for which one draw is far off."""
    lengths = experiment("lengths")
    found = lengths.distances(lengths.random_model(0.35))
    distances = [each["distance"] for each in found.values()]
    assert distances[0] > 0.6
    assert all(later < 0.8 * earlier for earlier, later in itertools.pairwise(distances))
    assert distances[-1] < 0.25
    assert all(1 <= each["effective"] <= draws for draws, each in found.items())


@pytest.mark.parametrize(
    ("before", "fill", "after", "faults"),
    [
        ("It was ", "the best", " of times", set()),
        ("It was ", "the be", " of times", {"half word behind"}),
        ("It was ", "the best-", " of times", {"half word behind"}),
        ("It was ", "the times-best", " of times", set()),
        ("It w", "as the", " best", set()),
        ("It w", "it the", " best", {"half word before"}),
        ("It was ", "the--", "best", set()),
        ("It was ", "the ", " best", {"doubled blank"}),
        ("It was the ", "'best", "' of", set()),
    ],
)
def test_words_at_seams_are_whole_where_the_training_text_has_their_parts(experiment, before, fill, after, faults):
    seams = experiment("seams")
    known = {"it", "was", "the", "best", "of", "times"}
    found = seams.seams_of(seams.Cut(before, "", after, 1), fill, known)
    assert {name for name, wrong in found.items() if wrong} == faults
