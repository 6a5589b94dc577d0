"""What is done to each tool, and what it leaves behind. A scenario begins with a store in sync."""

import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benches.report import quantile
from benches.sync.judge import Verdict, judge
from benches.sync.process import CannotError, FailedError, GoneError, Peer, Stub, until
from benches.sync.tools import CANDIDATES
from benches.sync.workload import Workload

TIMES = 3


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything; the defaults are the bench's, smaller ones are for tests."""

    documents: int = 200
    paragraphs: int = 20
    trouble: float = 6.0
    """Seconds for which the model refuses: longer than a client's repeats, shorter than most outages."""
    edits: int = 100
    latency: float = 30.0
    """Seconds that the edits of the latency may take at most."""


@dataclass(slots=True)
class Result:
    """What one scenario took and left. None: not asked, or the tool has no such thing."""

    seconds: float | None = None
    embedded: int | None = None
    necessary: int | None = None
    lost: int | None = None
    stale: int | None = None
    orphaned: int | None = None
    doubled: int | None = None
    note: str = ""
    cannot: bool = False
    failed: bool = False
    also: dict[str, float] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether the store was right at the end, by the tool's own doing."""
        wrong = self.lost or self.stale or self.orphaned or self.doubled
        return not (wrong or self.failed or self.cannot)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right}


class Bench:
    """One tool at work: its process, its documents, and the truth about them."""

    def __init__(self, name: str, python: Path, stub: Stub, root: Path, size: Size) -> None:
        self.name = name
        self.stub = stub
        self.size = size
        self._python = python
        self._root = root
        self._worlds = 0
        self._peer: Peer | None = None
        self.clean = False
        self.about: dict[str, Any] = {}
        self.truth = Workload(size.documents, size.paragraphs)

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    def start(self) -> None:
        """Start the tool's process in the world that is there."""
        candidate = CANDIDATES[self.name]
        world = self._root / f"{self.name}-{self._worlds}"
        self._peer = Peer(self._python, candidate.module, world, self.stub.url, candidate.arguments)
        self.about = self._peer.do("about")
        self._peer.open()

    def begin(self) -> None:
        """Start over: a new world whose documents are written and not synced yet."""
        self.end()
        self._worlds += 1
        self.truth = Workload(self.size.documents, self.size.paragraphs)
        self.start()
        self.peer.do("write", documents=self.truth.texts())

    def ready(self) -> None:
        """Have a store in sync: this world's if it is, else a new one's."""
        if not self.clean:
            self.begin()
            self.peer.do("sync")
            self.clean = True

    def end(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
            shutil.rmtree(self._root / f"{self.name}-{self._worlds}", ignore_errors=True)
        self.clean = False

    def write(self, *names: str) -> None:
        self.peer.do("write", documents=self.truth.texts(names))

    def verdict(self, apart: Sequence[str] = ()) -> Verdict:
        return judge(self.truth.documents, self.peer.do("store"), apart=apart)

    def run(self, result: Result) -> float:
        """Let the tool run once; note what it complains of. Return the seconds."""
        begun = time.perf_counter()
        try:
            if complaint := self.peer.do("sync"):
                result.note = complaint
        except FailedError as failed:
            result.note = f"the run broke off: {failed}"
            result.failed = True
        return time.perf_counter() - begun

    def judged(self, result: Result, apart: Sequence[str] = ()) -> Verdict:
        verdict = self.verdict(apart)
        for name, number in asdict(verdict).items():
            setattr(result, name, number)
        return verdict

    def measured(self, necessary: int, apart: Sequence[str] = ()) -> Result:
        """Run once, after a change, and judge."""
        result = Result(necessary=necessary)
        before = self.stub.counts()
        result.seconds = round(self.run(result), 3)
        result.embedded = self.stub.counts()["embedded"] - before["embedded"]
        self.clean = self.judged(result, apart).clean and not result.failed
        return result


# --- the scenarios, in their order


def backfill(bench: Bench) -> Result:
    bench.begin()
    with bench.peer.weighed() as peak:
        result = bench.measured(bench.truth.chunks)
    result.also = {"resident_mb": peak[0], "disk_mb": round(bench.peer.do("size") / 1e6, 2)}
    return result


def _several(bench: Bench, change: Callable[[int], None], necessary: int) -> Result:
    """Do a small thing three times: the middle one of the times, the worst of the counts.

    A time of milliseconds is easily that of something else on the machine. Where a store is wrong
    once, it is judged as it is.
    """
    results = list[Result]()
    for turn in range(TIMES):
        change(turn)
        results.append(bench.measured(necessary))
        if not bench.clean:
            break
    worst = max(results, key=lambda result: result.embedded or 0)
    last = results[-1]
    last.embedded = worst.embedded
    last.seconds = sorted(each.seconds or 0.0 for each in results)[(len(results) - 1) // 2]
    return last


def nothing(bench: Bench) -> Result:
    return _several(bench, lambda _: None, 0)


def edit(bench: Bench) -> Result:
    def change(_: int) -> None:
        bench.truth.edit("0001.txt")
        bench.write("0001.txt")

    return _several(bench, change, 1)


def touch(bench: Bench) -> Result:
    return _several(bench, lambda _: bench.peer.do("touch"), 0)


def ten_edits(bench: Bench) -> Result:
    def change(_: int) -> None:
        for _ in range(10):
            bench.truth.edit("0002.txt")
            bench.write("0002.txt")

    return _several(bench, change, 1)


def rename(bench: Bench) -> Result:
    def change(turn: int) -> None:
        old, new = f"{turn + 3:04}.txt", f"renamed-{turn}.txt"
        bench.truth.rename(old, new)
        bench.peer.do("rename", old=old, new=new)

    return _several(bench, change, 0)


def copy(bench: Bench) -> Result:
    def change(turn: int) -> None:
        old, new = f"{turn + 6:04}.txt", f"copy-{turn}.txt"
        bench.truth.copy(old, new)
        bench.peer.do("copy", old=old, new=new)

    return _several(bench, change, 0)


def _ten(bench: Bench) -> list[str]:
    return sorted(bench.truth.documents)[10:20]


def poison(bench: Bench) -> Result:
    """One of ten edited documents cannot be embedded; the nine others are judged."""
    names = _ten(bench)
    for name in names:
        bench.truth.edit(name, poison=name == names[4])
    bench.write(*names)
    result = bench.measured(9, apart=[names[4]])
    # That the run tells of the poison is right; that it takes others along is seen in the store.
    result.failed = False
    if not result.note:
        result.note = "says nothing of it"
    bench.truth.edit(names[4])
    bench.write(names[4])
    bench.run(Result())
    bench.clean = bench.verdict().clean
    return result


def limited(bench: Bench) -> Result:
    return _trouble(bench, "limited")


def outage(bench: Bench) -> Result:
    return _trouble(bench, "down")


def _trouble(bench: Bench, mood: Literal["limited", "down"]) -> Result:
    """The model refuses everything for a while. Seconds count from its end."""
    names = _ten(bench)
    for name in names:
        bench.truth.edit(name)
    bench.write(*names)
    result = Result(necessary=10)
    before = bench.stub.counts()
    bench.stub.mood(mood)
    try:
        bench.peer.begin("sync")
        time.sleep(bench.size.trouble)
    finally:
        bench.stub.mood("fine")
    begun = time.perf_counter()
    try:
        told = bench.peer.end()
    except FailedError as failed:
        told = str(failed)
    bench.clean = bench.judged(result).clean
    there = {text for _, text, _ in bench.peer.do("store")}
    # A tool that leaves old texts behind has not given up if the new ones are there.
    if any(text not in there for name in names for text in bench.truth.documents[name]):
        result.note = f"gives up and needs another run: {told}" if told else "gives up in silence"
        result.failed = True
        bench.run(Result())
        bench.clean = bench.verdict().clean
    result.seconds = round(time.perf_counter() - begun, 3)
    after = bench.stub.counts()
    result.embedded = after["embedded"] - before["embedded"]
    result.also = {"requests_refused": after["refused"] - before["refused"]}
    return result


def lost_vectors(bench: Bench) -> Result:
    """Vectors vanish from the store. A run should notice, or what the manual has for it mend it."""
    bench.peer.do("lose", count=bench.truth.chunks // 8)
    there = {text for _, text, _ in bench.peer.do("store")}
    texts = {text for paragraphs in bench.truth.documents.values() for text in paragraphs}
    result = bench.measured(len(texts - there))
    if not bench.clean:
        begun = time.perf_counter()
        before = bench.stub.counts()["embedded"]
        try:
            result.note = f"a run does not notice; {bench.peer.do('mend')} mends it"
        except CannotError:
            result.note = "a run does not notice, and the manual has no way to mend it"
            return result
        assert result.seconds is not None
        assert result.embedded is not None
        result.seconds = round(result.seconds + time.perf_counter() - begun, 3)
        result.embedded += bench.stub.counts()["embedded"] - before
        bench.clean = bench.judged(result).clean
    return result


def latency(bench: Bench) -> Result:
    """From the return of a write until a search finds the text, model time included."""
    follows = bench.about["follows"]
    if follows:
        _following(bench)
    result, late = Result(), list[float]()
    names = sorted(bench.truth.documents)[30:80] or sorted(bench.truth.documents)
    jitter, stop = random.Random(7), time.monotonic() + bench.size.latency
    before = bench.stub.counts()["embedded"]
    while len(late) < bench.size.edits and time.monotonic() < stop:
        # Not in step with anything that looks at regular times.
        time.sleep(jitter.uniform(0.02, 0.2))
        name = names[len(late) % len(names)]
        text = bench.truth.edit(name)
        bench.write(name)
        begun = time.perf_counter()
        if not follows:
            bench.peer.do("sync")
        if not bench.peer.do("until", text=text, timeout=20.0):
            result.note, result.failed = "an edit was not found within 20 s", True
            break
        late.append((time.perf_counter() - begun) * 1000)
    result.embedded = bench.stub.counts()["embedded"] - before
    result.necessary = len(late)
    if not result.failed:
        result.also = {
            "p50_ms": round(quantile(late, 0.5), 1),
            "p99_ms": round(quantile(late, 0.99), 1),
            "edits": len(late),
        }
        result.note = "" if follows else "each edit by a run started at once"
    _followed(bench, result, follows=follows)
    return result


def hot_key(bench: Bench) -> Result:
    """One document changes all the time while the tool follows."""
    if not bench.about["follows"]:
        return Result(cannot=True)
    _following(bench)
    result = Result(necessary=bench.size.edits)
    before, text = bench.stub.counts()["embedded"], ""
    for _ in range(bench.size.edits):
        text = bench.truth.edit("0009.txt")
        bench.write("0009.txt")
        time.sleep(0.02)
    begun = time.perf_counter()
    if not bench.peer.do("until", text=text, timeout=30.0):
        result.note, result.failed = "the last text was not found within 30 s", True
    result.seconds = round(time.perf_counter() - begun, 3)
    result.embedded = bench.stub.counts()["embedded"] - before
    _followed(bench, result, follows=True)
    return result


def _following(bench: Bench) -> None:
    """Have the tool follow, and know that it does: an edit has come through."""
    bench.peer.do("follow", on=True)
    text = bench.truth.edit("0010.txt")
    bench.write("0010.txt")
    if not bench.peer.do("until", text=text, timeout=30.0):
        raise FailedError("it does not follow: an edit was not found within 30 s")


def _followed(bench: Bench, result: Result, *, follows: bool) -> None:
    if follows:
        bench.peer.do("follow", on=False)
        # What came last may still be under way; a run waits for it.
        bench.run(Result())
    bench.clean = bench.judged(result).clean and not result.failed


def delete_storm(bench: Bench) -> Result:
    gone = sorted(bench.truth.documents)[::2]
    bench.truth.delete(gone)
    bench.peer.do("delete", names=gone)
    result = bench.measured(0)
    bench.clean = False
    return result


def killed(bench: Bench) -> Result:
    """`kill -9` when half is embedded, then a new process that runs to the end."""
    bench.begin()
    chunks = bench.truth.chunks
    before = bench.stub.counts()["embedded"]
    bench.peer.begin("sync")
    if not until(lambda: bench.stub.counts()["embedded"] - before >= chunks // 2, patience=60):
        return Result(note="half of the backfill was not embedded within a minute", failed=True)
    bench.peer.kill()
    # What the model was still asked by the dead is counted before, not after.
    time.sleep(0.3)
    at_kill = bench.stub.counts()["embedded"] - before
    bench.start()
    result = bench.measured(chunks - at_kill)
    assert result.embedded is not None
    result.also = {"embedded_before": at_kill, "embedded_twice": at_kill + result.embedded - chunks}
    return result


SCENARIOS: dict[str, Callable[[Bench], Result]] = {
    "backfill": backfill,
    "nothing": nothing,
    "edit": edit,
    "touch": touch,
    "ten_edits": ten_edits,
    "rename": rename,
    "copy": copy,
    "lost_vectors": lost_vectors,
    "poison": poison,
    "limited": limited,
    "outage": outage,
    "latency": latency,
    "hot_key": hot_key,
    "delete_storm": delete_storm,
    "killed": killed,
}
BEGINS_ITSELF = {"backfill", "killed"}


def play(bench: Bench) -> dict[str, Result]:
    """Play all scenarios for one tool; one that breaks is written down and the next goes on."""
    found: dict[str, Result] = {}
    for name, scenario in SCENARIOS.items():
        try:
            if name not in BEGINS_ITSELF:
                bench.ready()
            found[name] = scenario(bench)
        except (FailedError, GoneError, CannotError) as error:
            found[name] = Result(note=str(error), failed=True)
            bench.clean = False
        told = {key: value for key, value in asdict(found[name]).items() if value not in (None, "")}
        print(f"sync: {bench.name} {name}: {told}", file=sys.stderr)
    bench.end()
    return found
