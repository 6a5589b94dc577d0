"""Requests to a model: full, of like length, and never above the limits."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.batch import batches, halves
from evervec.ports import Limits

COUNTS = st.lists(st.integers(0, 700), max_size=200)
LIMITS = st.builds(
    Limits,
    batch_tokens_max=st.integers(1, 2000),
    batch_texts_max=st.integers(1, 40),
    text_tokens_max=st.integers(1, 600),
)


@given(COUNTS, LIMITS)
def test_every_text_travels_exactly_once(counts: list[int], limits: Limits) -> None:
    sent = [index for batch in batches(counts, limits=limits) for index in batch]

    assert sorted(sent) == list(range(len(counts)))


@given(COUNTS, LIMITS)
def test_a_request_keeps_to_the_limits_or_is_a_single_text(
    counts: list[int], limits: Limits
) -> None:
    for batch in batches(counts, limits=limits):
        longest = max(counts[index] for index in batch)
        assert len(batch) == 1 or (
            longest * len(batch) <= limits.batch_tokens_max
            and len(batch) <= limits.batch_texts_max
            and longest <= limits.text_tokens_max
        )


@given(COUNTS, LIMITS)
def test_no_two_neighbouring_requests_could_have_been_one(
    counts: list[int], limits: Limits
) -> None:
    """Requests are as full as the limits allow."""
    made = batches(counts, limits=limits)
    for batch, after in pairwise(made):
        longest = max(1, *(counts[index] for index in batch))
        size = len(batch) + 1
        assert after
        assert (
            longest * size > limits.batch_tokens_max
            or size > limits.batch_texts_max
            or longest > limits.text_tokens_max
        )


@given(COUNTS, LIMITS)
def test_long_texts_go_first_and_equal_ones_keep_their_order(
    counts: list[int], limits: Limits
) -> None:
    sent = [index for batch in batches(counts, limits=limits) for index in batch]

    assert sent == sorted(sent, key=lambda index: (-counts[index], index))


def test_little_is_wasted_on_padding() -> None:
    """On lengths as varied as real texts, padding stays below five percent."""
    counts = [4 + (index * 7919) % 250 for index in range(2000)]
    made = batches(counts, limits=Limits(batch_tokens_max=1024, text_tokens_max=256))

    padded = sum(max(counts[index] for index in batch) * len(batch) for batch in made)
    assert padded < 1.05 * sum(counts)


def test_nothing_makes_no_request() -> None:
    assert batches([], limits=Limits()) == []


@given(st.lists(st.integers(), min_size=2))
def test_halving_loses_nothing_and_always_ends(batch: list[int]) -> None:
    left, right = halves(batch)

    assert left + right == batch
    assert 0 <= len(left) - len(right) <= 1


def test_a_single_text_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match="one text"):
        halves([3])
