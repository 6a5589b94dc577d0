"""Reciprocal rank fusion: by rank alone, and the same whatever the order of the rankings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.fusion import fuse

RANKING = st.lists(st.integers(0, 30), unique=True)


def test_first_place_everywhere_scores_one():
    thing, score = fuse([["a", "b"], ["a", "c"]])[0]
    assert thing == "a"
    assert score == pytest.approx(1)


def test_what_is_in_both_rankings_goes_before_what_leads_one():
    assert [thing for thing, _ in fuse([["a", "x"], ["b", "x"]])] == ["x", "a", "b"]


def test_the_score_is_the_scaled_sum_of_reciprocal_ranks():
    scores = dict(fuse([["a", "b"], ["b"]]))
    assert scores["a"] == pytest.approx(1 / 11 / (2 / 11))
    assert scores["b"] == pytest.approx((1 / 12 + 1 / 11) / (2 / 11))


def test_a_ranking_that_weighs_more_decides_among_first_places():
    found = fuse([["a", "b"], ["b", "a"], ["c"]], weights=(1, 2, 4))

    assert [thing for thing, _ in found] == ["c", "b", "a"]
    assert dict(fuse([["a"], ["a"]], weights=(1, 3)))["a"] == pytest.approx(1)


def test_ties_go_by_the_order_given():
    assert [thing for thing, _ in fuse([["b"], ["a"]])] == ["a", "b"]
    assert [thing for thing, _ in fuse([[1], [2]], order=lambda thing: -thing)] == [2, 1]


@given(st.lists(RANKING, min_size=1, max_size=3))
def test_the_order_of_the_rankings_does_not_matter(rankings):
    forward, backward = fuse(rankings), fuse(rankings[::-1])
    assert [thing for thing, _ in forward] == [thing for thing, _ in backward]
    assert all(0 < score <= 1 + 1e-9 for _, score in forward)
    assert {thing for thing, _ in forward} == {thing for one in rankings for thing in one}


def test_nothing_fuses_to_nothing():
    assert fuse([]) == []
    assert fuse([[], []]) == []
