"""A machine room in one thread: simulated processes in virtual time, replayed from a seed.

`SimulatedLoop` is an asyncio event loop with no selector, no threads and no waiting. What may run
next belongs to *actors*, each standing for one process. A seeded generator picks the actor and,
within it, what goes on: the oldest ready callback (an event loop keeps its order, so one process
does too), or one of its database calls, which run inline but take effect, and answer, some picks
after they were asked for. So every await on a database is a place where others get in between.

A killed actor is never stepped again: no `finally` runs, as with `kill -9`. A frozen one is
stepped again later, believing that no time has passed: a zombie.
"""

import asyncio
import hashlib
import random
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_ACTOR: ContextVar["Actor"] = ContextVar("actor")


class Died(BaseException):
    """Ends what a process was doing when it is killed. No product code may catch it."""


class Stuck(AssertionError):
    """Nothing can ever happen again, or too much happened, and the main task is not done."""


@dataclass(eq=False, slots=True)
class _Call:
    """A call that another thread of the actor makes, and its answer."""

    executor: object
    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    made: bool = False
    value: Any = None
    error: BaseException | None = None


@dataclass(eq=False, slots=True)
class Actor:
    """One simulated process."""

    name: str
    number: int
    alive: bool = True
    frozen_until: int = 0
    """A count of picks."""
    ready: deque[Handle] = field(default_factory=deque)
    calls: list[_Call] = field(default_factory=list)
    task: asyncio.Task[Any] | None = None


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs actors in an order, and at times, that the seed alone decides."""

    def __init__(self, seed: int, *, picks_max: int = 200_000) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.picks = 0
        self.picks_max = picks_max
        self.current: Actor | None = None
        self.before_pick: Callable[[], None] | None = None
        """Called between picks: where faults are chosen and invariants are checked."""
        self.errors: list[str] = []
        self._main = Actor("main", 0)
        self.actors: list[Actor] = [self._main]
        """Those that are alive."""
        self._spawned = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._now = 1000.0
        self._timers: list[tuple[float, int, Actor, TimerHandle]] = []
        self._timer_number = 0
        self._trace = hashlib.blake2b(digest_size=16)
        self._disposed = False

    # Time

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass at once; what was due meanwhile is late."""
        self._now += seconds

    # Actors

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> Actor:
        """Start *work* as a process of its own."""
        self._spawned += 1
        actor = Actor(name, self._spawned)
        self.actors.append(actor)
        context = copy_context()
        context.run(_ACTOR.set, actor)
        actor.task = self.create_task(work, name=name, context=context)
        return actor

    def kill(self, actor: Actor) -> None:
        """End *actor* between two of its steps, as SIGKILL does."""
        if actor.alive:
            self.actors.remove(actor)
        actor.alive = False
        actor.ready.clear()
        actor.calls.clear()

    def die(self) -> None:
        """End the actor that is running, here and now: its open transaction rolls back."""
        assert self.current is not None
        self.kill(self.current)
        raise Died

    def freeze(self, actor: Actor, picks: int) -> None:
        """Step *actor* no more until *picks* later, or until nobody else can go on."""
        actor.frozen_until = self.picks + picks

    def thaw(self) -> None:
        for actor in self.actors:
            actor.frozen_until = 0

    # The trace

    def note(self, what: str) -> None:
        """Make *what* a part of the trace that a replay must repeat."""
        self._trace.update(what.encode())

    @property
    def digest(self) -> str:
        return self._trace.hexdigest()

    # The event loop's own side

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        title = None if name is None else str(name)
        task = asyncio.Task(coro, loop=self, name=title, context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = self.create_future()
        actor = _ACTOR.get(self._main)
        if actor.alive and not self._disposed:
            actor.calls.append(_Call(executor, lambda: func(*args), answer))
        return answer

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        context = context or copy_context()
        handle = Handle(callback, args, self, context)
        self._enqueue(context.get(_ACTOR, self._main), handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        context = context or copy_context()
        timer = TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        actor = context.get(_ACTOR, self._main)
        heappush(self._timers, (when, self._timer_number, actor, timer))
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._disposed or (self.current is not None and not self.current.alive):
            return
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There are no threads."""

    def _enqueue(self, actor: Actor, handle: Handle) -> None:
        if actor.alive and not self._disposed:
            actor.ready.append(handle)

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they are due."""

    def _run_once(self) -> None:
        if self.before_pick is not None:
            self.before_pick()
        able = self._able()
        while not able:
            self._let_time_pass()
            able = self._able()
        self.picks += 1
        if self.picks > self.picks_max:
            raise Stuck(f"no end after {self.picks} picks; unfinished: {self._unfinished()}")
        self._step(able[self._any(len(able))])

    def _any(self, count: int) -> int:
        # `randrange` takes four times as long, and this is done at every pick.
        return int(self.random.random() * count) if count > 1 else 0

    def _able(self) -> list[Actor]:
        self._fire_timers()
        picks = self.picks
        return [
            actor
            for actor in self.actors
            if (actor.ready or actor.calls) and actor.frozen_until <= picks
        ]

    def _fire_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, actor, timer = heappop(self._timers)
            if not timer.cancelled():
                self._enqueue(actor, timer)

    def _let_time_pass(self) -> None:
        while self._timers and (self._timers[0][3].cancelled() or not self._timers[0][2].alive):
            heappop(self._timers)
        if self._timers:
            self._now = max(self._now, self._timers[0][0])
            return
        frozen = [actor for actor in self.actors if actor.ready or actor.calls]
        if not frozen:
            raise Stuck(f"nothing can happen any more; unfinished: {self._unfinished()}")
        min(frozen, key=lambda actor: actor.frozen_until).frozen_until = 0

    def _unfinished(self) -> str:
        names = [task.get_name() for task in self._tasks if not task.done()]
        return ", ".join(names) or "no task"

    def _step(self, actor: Actor) -> None:
        self.current = actor
        choices = self._choices(actor)
        place = self._any(len(choices))
        choice = choices[place]
        self._trace.update(b"%d.%d;" % (actor.number, place))
        try:
            if choice is None:
                handle = actor.ready.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001 - what an event loop does with its handles
            elif choice.made:
                actor.calls.remove(choice)
                _deliver(choice)
            else:
                self._make(actor, choice)
        finally:
            self.current = None

    def _choices(self, actor: Actor) -> list[_Call | None]:
        choices: list[_Call | None] = [None] if actor.ready else []
        if not actor.calls:
            return choices
        waiting: set[int] = set()
        for call in actor.calls:
            # One executor makes its calls in the order in which they were asked for.
            if call.made or id(call.executor) not in waiting:
                choices.append(call)
            if not call.made:
                waiting.add(id(call.executor))
        return choices

    def _make(self, actor: Actor, call: _Call) -> None:
        try:
            call.value = call.work()
        except Died:
            return
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits the answer
            call.error = error
        if actor.alive:
            call.made = True
            self._now += self.random.choice((0.0, 0.0, 0.001, 0.004))

    def dispose(self) -> None:
        """Unwind what never ended, where it can do no more harm, and close the loop."""
        self._disposed = True
        # A `finally` may ask for the running loop, and asyncio would make a real one that nobody
        # closes.
        asyncio._set_running_loop(self)  # noqa: SLF001 - what an event loop does when it runs
        try:
            for task in self._tasks:
                _bury(task)
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001 - see above
        self._tasks.clear()
        self.actors.clear()
        self.close()


def _deliver(call: _Call) -> None:
    if call.answer.done():
        return
    if call.error is not None:
        call.answer.set_exception(call.error)
    else:
        call.answer.set_result(call.value)


def _bury(task: asyncio.Task[Any]) -> None:
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    coroutine: Any = task.get_coro()
    for _ in range(50):
        try:
            coroutine.close()
        except BaseException:  # noqa: BLE001, S112 - a `finally` awaits; close again
            continue
        return


__all__ = ["Actor", "Died", "SimulatedLoop", "Stuck"]
