"""Claim: promote what is due, then take jobs in the fair order, all in one transaction."""

from dataclasses import dataclass

import apsw

from evervec import fairness
from evervec.model import Holder, Lane, Mode, Tier
from evervec.queues.sqlite.rows import SQL, Row, rows

_FIRST = {Lane.LIVE: 1, Lane.BACKFILL: -(1 << 40)}
_LAST = {Lane.LIVE: 1 << 40, Lane.BACKFILL: -1}
_PROMOTED_MIN = 1_000


@dataclass(frozen=True, slots=True)
class Cursor:
    """The lane served last, and how much of its turn's quantum is used; 0 when it is over."""

    lane: int
    spent: int


@dataclass(slots=True)
class Claim:
    """A claim in the making: what was taken under *fence*, and where the cursors stand."""

    connection: apsw.Connection
    fence: int
    limit: int
    cursors: dict[Lane, Cursor]
    taken: dict[Lane, list[Row]]
    company: int = 0
    """How many leases its process holds already."""
    drains: bool = False
    """A suspect that has to be alone is next: its process takes nothing until it holds nothing."""

    @property
    def count(self) -> int:
        return sum(len(rows) for rows in self.taken.values())

    def take(self, kind: Lane, limit: int) -> None:
        """Take up to *limit* ready jobs of one kind of lane, going round from the cursor."""
        while limit > 0:
            wanted = fairness.lanes_wanted(limit)
            lanes = self._lanes(kind, wanted)
            if not lanes:
                return
            before = len(self.taken[kind])
            if fairness.room(limit, [tier for _, tier in lanes], self.limit):
                self._divide(kind, lanes, limit)
            else:
                self._rotate(kind, lanes, limit)
            limit -= len(self.taken[kind]) - before

    def _lanes(self, kind: Lane, count: int) -> list[tuple[int, Tier]]:
        cursor = self.cursors[kind]
        start = max(_FIRST[kind], cursor.lane if cursor.spent else cursor.lane + 1)
        found = rows(self.connection, SQL["lanes"], (start, _LAST[kind], count))
        if len(found) < count:
            rest = (_FIRST[kind], start - 1, count - len(found))
            found += rows(self.connection, SQL["lanes"], rest)
        return [(lane, Tier(tier)) for lane, tier in found]

    def _divide(self, kind: Lane, lanes: list[tuple[int, Tier]], limit: int) -> None:
        # All lanes that have work are in this claim and more than their quanta fit.
        shares = fairness.spread([tier for _, tier in lanes], limit)
        for (lane, _), share in zip(lanes, shares, strict=True):
            self._take(kind, lane, share)
        # The next claim begins behind the first lane, so what does not divide goes to each in turn.
        self.cursors[kind] = Cursor(lanes[0][0], 0)

    def _rotate(self, kind: Lane, lanes: list[tuple[int, Tier]], limit: int) -> None:
        for lane, tier in lanes:
            cursor = self.cursors[kind]
            spent = cursor.spent if cursor.lane == lane else 0
            whole = fairness.quantum(tier, self.limit)
            got = self._take(kind, lane, min(max(1, whole - spent), limit))
            limit -= got
            over = spent + got >= whole or limit > 0
            self.cursors[kind] = Cursor(lane, 0 if over else spent + got)
            if limit == 0:
                return

    def _take(self, kind: Lane, lane: int, limit: int) -> int:
        if limit == 0:
            return 0
        found = rows(self.connection, SQL["claim"], (self.fence, lane, limit))
        self.taken[kind] += found
        return len(found)

    def take_suspects(self, kinds: tuple[Lane, ...]) -> None:
        """Take a group of suspects, no more together than may be."""
        low, high = min(_FIRST[kind] for kind in kinds), max(_LAST[kind] for kind in kinds)
        together = self.connection.execute(SQL["suspects"], (low, high)).get
        if together is None:
            return
        if together == 1 and self.company:
            # Were it to die beside others, nobody could tell who did it.
            self.drains = True
            return
        values = (self.fence, together, low, high, min(self.limit, together))
        self.taken[Lane.LIVE] += rows(self.connection, SQL["claim_suspects"], values)

    def take_ready(self, kinds: tuple[Lane, ...]) -> None:
        """Take ready jobs: live first, but an eighth is kept for backfill if both wait."""
        if Lane.BACKFILL in kinds and Lane.LIVE in kinds:
            self.take(Lane.BACKFILL, fairness.backfill_share(self.limit, self.fence))
        for kind in kinds:
            self.take(kind, self.limit - self.count)


def claim(
    connection: apsw.Connection, limit: int, kinds: tuple[Lane, ...], now: int, holder: Holder
) -> tuple[int, list[Row]] | None:
    """Take up to *limit* jobs; return their fence and rows, None if there are none."""
    meta = rows(connection, SQL["meta"])[0]
    if limit < 1 or meta[1] != Mode.RUNNING:
        return None
    company, alone = rows(connection, SQL["company"], _process(holder))[0]
    if alone:
        return None
    connection.execute(SQL["promote"], (now, max(_PROMOTED_MIN, 2 * limit)))
    fence = int(meta[0]) + 1
    taking = Claim(
        connection,
        fence,
        limit,
        {Lane.LIVE: Cursor(meta[2], meta[3]), Lane.BACKFILL: Cursor(meta[4], meta[5])},
        {Lane.LIVE: [], Lane.BACKFILL: []},
        company,
    )
    # Suspects are kept apart from the innocent. They and the ready take turns, so that neither
    # poison nor a flood of changes holds up the other.
    order = [taking.take_suspects, taking.take_ready]
    for take in order if fence % 2 == 0 else reversed(order):
        take(kinds)
        if taking.count or taking.drains:
            break
    if not taking.count:
        return None
    live, backfill = taking.cursors[Lane.LIVE], taking.cursors[Lane.BACKFILL]
    connection.execute(
        SQL["claimed"], (fence, live.lane, live.spent, backfill.lane, backfill.spent)
    )
    return fence, taking.taken[Lane.LIVE] + taking.taken[Lane.BACKFILL]


def _process(holder: Holder) -> tuple[str, str, int, int, str]:
    return holder.name, holder.host, holder.pid, holder.started, holder.boot


def open_lease(
    connection: apsw.Connection, fence: int, holder: Holder, expires: int, size: int
) -> None:
    """Record who holds the jobs under *fence*, and until when."""
    connection.execute(
        SQL["lease"],
        (
            fence,
            holder.name,
            holder.host,
            holder.pid,
            holder.started,
            holder.boot,
            expires,
            size,
        ),
    )
