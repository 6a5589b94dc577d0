"""The presets are the seeds' schedules; chance stays within its bounds."""

from random import Random

import pytest

from evervec.backoff import DEFAULT, FIVE, FOUR, MINUTE, THREE, Policy

RNG = Random(1)


def delays(policy, attempts):
    return [policy.delay(attempt, RNG) for attempt in range(1, attempts + 1)]


def test_three_attempts_wait_one_two_and_four_seconds():
    assert delays(THREE, 3) == [1, 2, 4]
    assert [THREE.exhausted(attempts) for attempts in (1, 2, 3)] == [False, False, True]


def test_five_attempts_wait_a_minute_each():
    assert delays(FIVE, 5) == [60] * 5
    assert [FIVE.exhausted(attempts) for attempts in (4, 5)] == [False, True]


def test_four_attempts_wait_two_to_the_n_with_jitter():
    for attempt, whole in enumerate((2, 4, 8), start=1):
        drawn = [FOUR.delay(attempt, RNG) for _ in range(200)]
        assert 0.75 * whole <= min(drawn) < max(drawn) <= whole
    assert [FOUR.exhausted(attempts) for attempts in (3, 4)] == [False, True]


def test_a_minute_is_a_minute():
    assert delays(MINUTE, 3) == [60, 60, 60]
    assert MINUTE.exhausted(4)


def test_the_default_leaves_all_to_chance_up_to_ten_minutes():
    for attempt, whole in ((1, 1), (2, 2), (10, 512), (11, 600), (10_000, 600)):
        drawn = [DEFAULT.delay(attempt, RNG) for _ in range(500)]
        assert 0 <= min(drawn) < 0.05 * whole
        assert 0.95 * whole < max(drawn) <= whole
    assert [DEFAULT.exhausted(attempts) for attempts in (7, 8)] == [False, True]


@pytest.mark.parametrize("after", [0.0, 30.0, 86_400.0])
def test_what_the_other_side_asks_for_is_granted_in_full(after):
    assert THREE.delay(3, RNG, after=after) == max(4, after)


def test_without_a_limit_attempts_are_never_exhausted():
    assert not Policy(attempts_max=None).exhausted(10**9)
