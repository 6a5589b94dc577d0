"""Shares: bounded, complete, by weight."""

from hypothesis import given
from hypothesis import strategies as st

from evervec.fairness import backfill_share, lanes_wanted, quantum, room, spread
from evervec.model import Tier

TIERS = st.lists(st.sampled_from(Tier), min_size=1, max_size=50)


def test_the_quanta_of_a_full_claim_are_eight_sixteen_and_thirty_two():
    assert [quantum(tier, 500) for tier in Tier] == [8, 16, 32]
    assert [quantum(tier, 1) for tier in Tier] == [1, 2, 4]


@given(TIERS, st.integers(1, 1000))
def test_spreading_gives_out_exactly_the_limit_by_weight(tiers, limit):
    shares = spread(tiers, limit)
    assert sum(shares) == limit
    assert all(share >= 0 for share in shares)
    whole = [share for share, tier in zip(shares, tiers, strict=True) if tier is Tier.FREE]
    assert not whole or max(whole) - min(whole) <= 1


@given(TIERS, st.integers(1, 1000))
def test_every_lane_gets_its_quantum_where_there_is_room(tiers, limit):
    if room(limit, tiers, limit):
        pairs = zip(spread(tiers, limit), tiers, strict=True)
        assert all(share >= quantum(tier, limit) for share, tier in pairs)


@given(st.integers(1, 1000))
def test_the_lanes_that_are_looked_up_can_fill_the_claim(limit):
    assert lanes_wanted(limit) * quantum(Tier.FREE, limit) >= limit


@given(st.integers(2, 1000), st.integers(0, 1000))
def test_backfill_keeps_an_eighth(limit, turn):
    assert limit / 8 <= backfill_share(limit, turn) < limit / 8 + 1


def test_of_claims_of_one_job_every_eighth_is_backfills():
    assert sum(backfill_share(1, turn) for turn in range(800)) == 100
