"""Every write and every sync of every verb fails once, as a bad disk or as a full one.

A verb that failed has done nothing, or one of its whole steps; it says so in plain words; and
the same call afterwards does what it would have done.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from tests.simulation.harness import SPACE, digest, expect, pieces, vector
from tests.simulation.recorded import Content, State, closing_loop

from evervec.errors import StateError
from evervec.model import Change, Holder, Key, Mode, Publication, Scope, Space, Tier, encode_id
from evervec.model import State as JobState
from evervec.outcome import Done, Fail, Retry
from evervec.testing.clock import VirtualClock
from evervec.testing.invariants import no_orphans
from evervec.testing.powerloss import Disk

HOLDER = Holder("worker", "host", 1, 1, "first")
DOCS = [Key("one", "docs", encode_id(n)) for n in range(6)]
OLD, NEW = "the lease\n\nends", "the lease\n\nis renewed"
MANY = 1 << 60


@dataclass(frozen=True, slots=True)
class Scene:
    """Where every verb finds something to do: two held leases, parked jobs, documents, vectors."""

    fence: int
    """Of a lease on three jobs."""
    jobs: tuple[int, ...]
    parked: tuple[int, ...]


Verb = Callable[[State, Scene], Coroutine[Any, Any, None]]


async def put(state: State, scene: Scene) -> None:
    await state.queue.put([Change(key) for key in (*DOCS, Key("new", "docs", encode_id(1)))])


async def claim(state: State, scene: Scene) -> None:
    assert await state.queue.claim(3, holder=HOLDER, lease_for=30.0)


async def renew(state: State, scene: Scene) -> None:
    renewed = await state.queue.renew([scene.fence], holder=HOLDER, lease_for=90.0)
    assert scene.fence in renewed.held


async def settle(state: State, scene: Scene) -> None:
    outcomes = (Done(), Retry(1.0, "away", "Transient"), Fail("refused", "Permanent"))
    await state.queue.settle(scene.fence, dict(zip(scene.jobs, outcomes, strict=True)))


async def reap(state: State, scene: Scene) -> None:
    assert await state.queue.reap()


async def cancel(state: State, scene: Scene) -> None:
    await state.queue.cancel(DOCS)


async def replay(state: State, scene: Scene) -> None:
    await state.queue.replay(scene.parked)


async def drop(state: State, scene: Scene) -> None:
    await state.queue.drop(scene.parked)


async def forget_jobs(state: State, scene: Scene) -> None:
    await state.queue.forget(DOCS[0].scope)


async def set_mode(state: State, scene: Scene) -> None:
    await state.queue.set_mode(Mode.PAUSED)


async def set_tier(state: State, scene: Scene) -> None:
    await state.queue.set_tier("one", Tier.PREMIUM)


async def prune_jobs(state: State, scene: Scene) -> None:
    await state.queue.prune(finished_before=MANY, parked_before=MANY, limit=100)


async def keep(state: State, scene: Scene) -> None:
    texts = [piece.chunk.embedded for piece in pieces(NEW)]
    await state.store.keep("one", SPACE, {digest(text): vector(text) for text in texts})


async def publish(state: State, scene: Scene) -> None:
    made = [Publication(DOCS[0], 2, digest(OLD[:9]), pieces(OLD[:9]))]
    made += [Publication(DOCS[1], 2, b"", deleted=True)]
    made += [Publication(DOCS[5], 2, digest(OLD), pieces(OLD))]
    verdicts = await state.store.publish(made, fence=scene.fence, space=SPACE)
    assert set(verdicts) == {"published"}


async def bar(state: State, scene: Scene) -> None:
    await state.store.bar(dict.fromkeys(DOCS, scene.fence))


async def forget_documents(state: State, scene: Scene) -> None:
    await state.store.forget(DOCS[0].scope)


async def prune_vectors(state: State, scene: Scene) -> None:
    await state.store.prune(unused_before=MANY, limit=100)


async def register(state: State, scene: Scene) -> None:
    await state.registry.register(
        Scope("one", "other"), source={"kind": "table"}, recipe={"text": "{b}"}, space=A_SPACE
    )


async def change_registered(state: State, scene: Scene) -> None:
    await state.registry.register(
        DOCS[0].scope, source={"kind": "file"}, recipe={}, space=A_SPACE, change=True
    )


async def unregister(state: State, scene: Scene) -> None:
    await state.registry.unregister(DOCS[0].scope)


async def note(state: State, scene: Scene) -> None:
    await state.registry.notebook(1).save({"cursor": b"2", "more": b"3"})


A_SPACE = Space("model", "revision", 8)

VERBS: tuple[Verb, ...] = (
    put, claim, renew, settle, reap, cancel, replay, drop, forget_jobs, set_mode, set_tier,
    prune_jobs, keep, publish, bar, forget_documents, prune_vectors, register,
    change_registered, unregister, note,
)  # fmt: skip

OF_ANOTHER_BOOT = (reap,)


async def build(state: State) -> Scene:
    """Make the scene."""
    queue, store = state.queue, state.store
    await state.open()
    await state.registry.register(DOCS[0].scope, source={}, recipe={}, space=A_SPACE)
    await state.registry.notebook(1).save({"cursor": b"1"})
    texts = [piece.chunk.embedded for piece in pieces(OLD)]
    unused = "nobody uses this"
    vectors = {digest(text): vector(text) for text in (*texts, unused)}
    await store.keep("one", SPACE, vectors)
    published = [Publication(key, 1, digest(OLD), pieces(OLD)) for key in DOCS[:3]]
    await queue.put([Change(key) for key in DOCS])
    first = await queue.claim(3, holder=HOLDER, lease_for=30.0)
    assert first
    await store.publish(published, fence=first.fence, space=SPACE)
    ends = (Done(), Fail("refused", "Permanent"), Fail("refused", "Permanent"))
    parked = [job.job for job in first.jobs]
    await queue.settle(first.fence, dict(zip(parked, ends, strict=True)))
    held = await queue.claim(3, holder=HOLDER, lease_for=30.0)
    assert held
    await queue.put([Change(DOCS[0]), Change(Key("one", "docs", encode_id(9)))])
    views = await queue.jobs(states=(JobState.FAILED,))
    return Scene(held.fence, tuple(job.job for job in held.jobs), tuple(one.job for one in views))


@cache
def template() -> tuple[bytes, Scene]:
    with TemporaryDirectory() as folder, closing_loop(0) as loop:
        path = Path(folder) / "state.db"
        state = State(loop, str(path), clock=VirtualClock())
        scene = state.run(build(state))
        state.close()
        return path.read_bytes(), scene


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a verb whose Nth call to the disk failed."""

    failed: bool
    """Whether it got so far."""
    error: StateError | None
    before: Content
    after: Content
    steps: list[Content]
    """What its commits left, one by one."""
    in_the_end: Content
    """What the same call, once more, left."""


def attempt(
    verb: Verb,
    folder: Path,
    *,
    fail_at: int,
    failure: type[apsw.Error],
    checkpoint: bool,
    done: Content | None = None,
) -> Trial:
    """Run *verb* with one failure; run it once more unless *done* says that nothing is missing."""
    path = folder / f"{fail_at}.db"
    file, scene = template()
    path.write_bytes(file)
    disk = Disk()
    boot = "second" if verb in OF_ANOTHER_BOOT else "first"
    with closing_loop(0) as loop:
        state = State(loop, disk.uri(path), clock=VirtualClock(), boot=boot)
        database = state.database
        before = database.look()
        # With a checkpoint at every commit, the file's own writes fail too.
        database.set("wal_autocheckpoint", "1" if checkpoint else "1000")
        database.commits.clear()
        disk.failure, disk.fail_at = failure, disk.calls + fail_at
        error = None
        try:
            state.run(verb(state, scene))
        except StateError as raised:
            error = raised
        disk.fail_at = None
        steps = list(database.commits)
        after = database.look()
        if error and after != done:
            state.run(verb(state, scene))
        database.write_now(lambda connection: no_orphans(connection, (), expect))
        assert database.read_now(lambda connection: connection.pragma("integrity_check")) == "ok"
        trial = Trial(disk.failed, error, before, after, steps, database.look())
        state.close()
    path.unlink()
    return trial


@pytest.mark.parametrize(
    ("failure", "checkpoint"),
    [(apsw.IOError, False), (apsw.FullError, False), (apsw.IOError, True)],
    ids=["broken", "full", "broken at checkpoints"],
)
@pytest.mark.accepts("000-47", "000-59")
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_verb_that_a_disk_refuses_did_nothing_or_a_whole_step(
    verb: Verb, *, failure: type[apsw.Error], checkpoint: bool, tmp_path: Path
) -> None:
    """Whatever write or sync fails, the state is whole, the words are plain, and again works."""
    whole = attempt(verb, tmp_path, fail_at=MANY, failure=failure, checkpoint=checkpoint)
    assert not whole.failed
    assert whole.steps, "the scene gave it nothing to do"
    errors = 0
    for count in range(1, 1000):
        trial = attempt(
            verb,
            tmp_path,
            fail_at=count,
            failure=failure,
            checkpoint=checkpoint,
            done=whole.after,
        )
        if not trial.failed:
            break
        errors += trial.error is not None
        check(trial, whole, failure, checkpoint=checkpoint)
    assert errors, "no failure was ever reported"


def check(trial: Trial, whole: Trial, failure: type[apsw.Error], *, checkpoint: bool) -> None:
    assert trial.in_the_end == whole.after, "the same call again did something else"
    if trial.error is None:
        assert trial.after == whole.after
        return
    if checkpoint:
        # SQLite does not mind when it cannot copy the log back, and does it later; but a disk
        # written in Python cannot fail without an exception, which then comes out of the commit.
        assert trial.after in (trial.before, *whole.steps), "half a step was done"
    else:
        assert trial.after in (trial.before, *whole.steps[:-1]), "half a step was done"
    said = str(trial.error)
    assert "state database" in said
    assert (
        "the disk is full" if failure is apsw.FullError else "the disk reports an error"
    ) in said
    assert trial.error.hint
    assert "Traceback" not in said
