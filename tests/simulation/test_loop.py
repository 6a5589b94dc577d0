"""The simulated event loop itself: if it lies, every simulation does."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from evervec.testing.simulation import SimulatedLoop, Stuck


def run(seed: int, work: Callable[[SimulatedLoop], Coroutine[Any, Any, Any]]) -> Any:
    loop = SimulatedLoop(seed)
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.dispose()


def test_an_hour_passes_at_once() -> None:
    async def work(loop: SimulatedLoop) -> float:
        started = loop.time()
        await asyncio.sleep(3600)
        return loop.time() - started

    assert run(1, work) == 3600


def test_actors_interleave_differently_under_different_seeds_and_equally_under_one() -> None:
    async def work(loop: SimulatedLoop) -> str:
        order: list[str] = []

        async def actor(name: str) -> None:
            for _ in range(4):
                await loop.run_in_executor(None, order.append, name)

        actors = [loop.spawn(name, actor(name)) for name in "abc"]
        await asyncio.sleep(1)
        assert len(order) == 12
        assert all(one.alive for one in actors)
        return "".join(order)

    orders = [run(seed, work) for seed in range(20)]
    assert orders == [run(seed, work) for seed in range(20)]
    assert len(set(orders)) > 15


def test_a_killed_actor_runs_no_finally_and_its_timers_are_dead() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        seen: list[str] = []

        async def actor() -> None:
            try:
                await asyncio.sleep(10)
                seen.append("woke")
            finally:
                seen.append("finally")

        victim = loop.spawn("victim", actor())
        await asyncio.sleep(5)
        loop.kill(victim)
        await asyncio.sleep(50)
        return list(seen)

    assert run(1, work) == []


def test_an_actor_can_die_inside_a_database_call() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        seen: list[str] = []

        async def actor() -> None:
            try:
                await loop.run_in_executor(None, loop.die)
            except BaseException:
                seen.append("noticed")
                raise

        loop.spawn("victim", actor())
        await asyncio.sleep(5)
        return list(seen)

    assert run(1, work) == []


def test_a_frozen_actor_goes_on_later_believing_that_no_time_passed() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        seen: list[str] = []

        async def sleeper() -> None:
            started = loop.time()
            await asyncio.sleep(1)
            seen.append("zombie woke late" if loop.time() > started + 10 else "zombie")

        async def other() -> None:
            for _ in range(30):
                await asyncio.sleep(1)
            seen.append("other")

        zombie = loop.spawn("zombie", sleeper())
        loop.spawn("other", other())
        await asyncio.sleep(0.5)
        loop.freeze(zombie, 50)
        await asyncio.sleep(1000)
        return seen

    assert sorted(run(1, work)) == ["other", "zombie woke late"]


def test_a_deadlock_is_an_error_that_names_the_tasks() -> None:
    async def work(loop: SimulatedLoop) -> None:
        async def waiting() -> None:
            await asyncio.Event().wait()

        await asyncio.create_task(waiting(), name="waits-for-nothing")

    with pytest.raises(Stuck, match="waits-for-nothing"):
        run(1, work)


def test_endless_work_without_progress_is_an_error() -> None:
    async def work(loop: SimulatedLoop) -> None:
        async def spin() -> None:
            await asyncio.sleep(0)
            loop.create_task(spin())

        await spin()
        await asyncio.Event().wait()

    loop = SimulatedLoop(1, picks_max=500)
    with pytest.raises(Stuck, match="no end after"):
        loop.run_until_complete(work(loop))
    loop.dispose()


def test_a_timeout_counts_virtual_time() -> None:
    async def work(loop: SimulatedLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return loop.time()

    assert run(1, work) == 1030


@pytest.mark.parametrize("seed", [3])
def test_a_world_replays_exactly_in_another_process(seed: int) -> None:
    """Not even the order of Python's sets, which differs from process to process, shows."""
    digests = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.run", "--digest", "--seed", str(seed)],
            env={**os.environ, "PYTHONHASHSEED": hashing},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hashing in ("1", "2", "77")
    }
    assert len(digests) == 1
    assert digests.pop().strip()


def test_a_finally_that_is_unwound_late_still_runs_in_this_loop() -> None:
    """Without one, `asyncio.gather` makes a real loop, which nobody closes."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def work(loop: SimulatedLoop) -> SimulatedLoop:
        async def actor() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                loops.append(asyncio.get_running_loop())

        killed = loop.spawn("killed", actor())
        loop.spawn("left", actor())
        await asyncio.sleep(1)
        loop.kill(killed)
        return loop

    loop = run(1, work)
    assert loops == [loop, loop]
