"""What people see while it works: a live table in a terminal, plain lines elsewhere, or JSON lines.

It reads what is durable (the event log and the counts), so it shows the work of every process.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evervec.app import App
from evervec.cli.opening import percent, say, say_json, seconds
from evervec.ports import Event
from evervec.status import CollectionStatus

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

FACTS = 1000
PLAIN_SECONDS = 2.0


class Tally:
    """What happened since this command began, by tenant and collection."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._seen: dict[str, int] = {}
        self.total: Counter[str] = Counter()

    async def begin(self) -> None:
        for tenant in await self._tenants():
            self._seen[tenant] = await self._app.state.events.last(tenant)

    async def gather(self) -> Counter[str]:
        """Return what is new, and add it to the total."""
        new: Counter[str] = Counter()
        for tenant in await self._tenants():
            while facts := await self._app.state.events.events(
                tenant=tenant, after=self._seen.get(tenant, 0), limit=FACTS
            ):
                self._seen[tenant] = facts[-1].number
                for fact in facts:
                    new[_kind(fact)] += 1
                    new["embedded"] += fact.data.get("embedded", 0)
                    new["reused"] += fact.data.get("reused", 0)
        self.total += new
        return new

    async def _tenants(self) -> set[str]:
        return {each.scope.tenant for each in await self._app.collections()}


def _kind(fact: Event) -> str:
    """Tell a document that was looked at and found unchanged from one with something new."""
    effort = fact.data.get("embedded", 0) + fact.data.get("reused", 0)
    looked_at = fact.type == "document.indexed" and fact.data.get("chunks") and not effort
    return "unchanged" if looked_at else fact.type


class View:
    """Plain lines: one when something happened, at most every few seconds."""

    def __init__(self, asked: argparse.Namespace, app: App, *, progress: bool) -> None:
        self._quiet = asked.quiet
        self._json = asked.json
        self._app = app
        self._progress = progress
        self._tally = Tally(app)
        self._began = time.monotonic()
        self._printed = -PLAIN_SECONDS
        self._was_in_sync = False
        self._pending: Counter[str] = Counter()
        self._started = False

    async def look(self) -> None:
        if not self._started:
            self._started = True
            await self._tally.begin()
            self.opening(await self._app.status())
        self._pending += await self._tally.gather()
        statuses = await self._app.status()
        self.show(statuses)

    def opening(self, statuses: Sequence[CollectionStatus]) -> None:
        if self._json or self._quiet:
            return
        settings, model = self._app.settings, self._app.embedder.model
        say(f"evervec · state {settings.state} · model {model} · Ctrl-C ends")
        del statuses

    def show(self, statuses: Sequence[CollectionStatus]) -> None:
        if self._json:
            if self._pending or not self._was_in_sync:
                say_json(self._line(statuses))
                self._pending.clear()
            self._was_in_sync = all_in_sync(statuses)
            return
        late = time.monotonic() - self._printed >= PLAIN_SECONDS
        in_sync = all_in_sync(statuses)
        if (
            not self._quiet
            and (late or in_sync)
            and (self._pending or in_sync != self._was_in_sync)
        ):
            self._printed = time.monotonic()
            say(self.sentence(statuses))
            self._pending.clear()
        self._was_in_sync = in_sync

    def sentence(self, statuses: Sequence[CollectionStatus]) -> str:
        new = self._pending
        indexed = f"{new['document.indexed']:,} indexed"
        parts = [f"{indexed} ({new['embedded']:,} chunks embedded, {new['reused']:,} reused)"]
        parts += [f"{new['unchanged']:,} unchanged"] if new["unchanged"] else []
        parts += [f"{new['document.deleted']:,} deleted"] if new["document.deleted"] else []
        parts += [f"{new['job.failed']:,} failed"] if new["job.failed"] else []
        documents = sum(status.documents for status in statuses)
        backlog = sum(status.backlog for status in statuses)
        after = (
            f"{documents:,} searchable, all fresh"
            if all_in_sync(statuses)
            else (
                f"{documents:,} searchable, {backlog:,} to go"
                + (f", {self.eta(backlog)} left" if self._progress else "")
            )
        )
        large = [told for status in statuses for told in status.on_the_way()]
        return " · ".join([*parts, *large, after])

    def eta(self, backlog: int) -> str:
        done = self._tally.total["document.indexed"] + self._tally.total["unchanged"]
        took = time.monotonic() - self._began
        return seconds(backlog * took / done) if done else "?"

    def _line(self, statuses: Sequence[CollectionStatus]) -> dict[str, object]:
        return {
            "indexed": self._pending["document.indexed"],
            "unchanged": self._pending["unchanged"],
            "deleted": self._pending["document.deleted"],
            "failed": self._pending["job.failed"],
            "embedded": self._pending["embedded"],
            "reused": self._pending["reused"],
            "collections": [status.to_json() for status in statuses],
        }

    def closing(self) -> None:
        if not self._json and not self._quiet:
            say("Stopping: finishing what is in hand …")

    def closed(self) -> None:
        if not self._json and not self._quiet:
            say("Stopped. What is left waits in the state and goes on with the next `evervec up`.")

    def done(self) -> None:
        """Nothing to add: the verdict follows."""


class LiveView(View):
    """A table that is drawn anew in place, for terminals."""

    def __init__(
        self, asked: argparse.Namespace, app: App, live: "Live", *, progress: bool
    ) -> None:
        super().__init__(asked, app, progress=progress)
        self._live = live

    def show(self, statuses: Sequence[CollectionStatus]) -> None:
        self._live.update(self.table(statuses), refresh=True)
        self._pending.clear()

    def table(self, statuses: Sequence[CollectionStatus]) -> "Table":
        from rich.table import Table

        total = self._tally.total
        caption = (
            f"{total['document.indexed']:,} indexed · {total['embedded']:,} chunks embedded · "
            f"{total['reused']:,} reused · {total['document.deleted']:,} deleted · "
            f"{total['job.failed']:,} failed"
        )
        table = Table(caption=caption, caption_justify="left", box=None, pad_edge=False)
        for heading in ("collection", "documents", "fresh", "lag p50", "to go", "oldest", "failed"):
            table.add_column(heading, justify="left" if heading == "collection" else "right")
        for status in statuses:
            table.add_row(
                status.name,
                f"{status.documents:,}",
                percent(status.fresh),
                seconds(status.lag_p50),
                f"{status.backlog:,}",
                seconds(status.oldest),
                f"{status.failed:,}",
            )
            if status.trouble:
                table.add_row(f"  {status.trouble}")
            for told in status.on_the_way():
                table.add_row(f"  {told}")
        return table

    def closing(self) -> None:
        self._live.stop()
        super().closing()

    def done(self) -> None:
        self._live.stop()


def all_in_sync(statuses: Sequence[CollectionStatus]) -> bool:
    return not any(status.backlog or status.scanning for status in statuses)


@contextmanager
def view_of(asked: argparse.Namespace, app: App, *, progress: bool = False) -> Iterator[View]:
    """Choose the view that fits who is looking."""
    if asked.json or asked.quiet or not sys.stdout.isatty():
        yield View(asked, app, progress=progress)
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield LiveView(asked, app, live, progress=progress)
