"""What the queue costs: jobs a second, and how the cost grows with what is queued and finished.

    python -m benches.queueing [--large 1000000]

Everything is durable (`synchronous = full`), in batches of 500, with one worker and no model. The
ratios compare cells of one run, so they hold on any machine; the rates are this machine's.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import apsw
from benches.report import Line, report

from evervec.holder import this_process
from evervec.model import Change, Key, encode_id
from evervec.outcome import Done
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database

BATCH = 500
SMALL = 10_000
ROUNDS = 40

HISTORY = """
with recursive n (n) as (select 1 union all select n + 1 from n limit ?1)
insert into finished (job, scope, document, fence, attempts, since, ended_at)
select n, 1, n, n / 500, 0, 0, 1 from n
"""


def batches(first: int, count: int, tenants: int) -> list[list[Change]]:
    return [
        [
            Change(Key(f"t{number % tenants}", "c", encode_id(number)))
            for number in range(start, min(start + BATCH, first + count))
        ]
        for start in range(first, first + count, BATCH)
    ]


async def fill(queue: SqliteQueue, first: int, count: int, tenants: int) -> float:
    """Put *count* new jobs; return changes a second, by the middle one of the batches.

    The making of the changes is left out.
    """
    spent = []
    for start in range(first, first + count, 50_000):
        for batch in batches(start, min(50_000, first + count - start), tenants):
            began = time.perf_counter()
            await queue.put(batch)
            spent.append((time.perf_counter() - began) / len(batch))
    return 1 / statistics.median(spent)


async def drain(queue: SqliteQueue, rounds: int) -> dict[str, float]:
    """Claim and finish *rounds* batches; return medians in microseconds a job."""
    me = this_process("bench")
    claims, settles = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        lease = await queue.claim(BATCH, holder=me, lease_for=60)
        if lease is None:
            break
        claimed = time.perf_counter()
        await queue.settle(lease.fence, {job.job: Done() for job in lease.jobs})
        settles.append((time.perf_counter() - claimed) / len(lease.jobs))
        claims.append((claimed - began) / len(lease.jobs))
    claim, settle = statistics.median(claims) * 1e6, statistics.median(settles) * 1e6
    whole = (sum(claims) + sum(settles)) / len(claims)
    return {
        "claim_us": round(claim, 2),
        "settle_us": round(settle, 2),
        "both_us": round(claim + settle, 2),
        "jobs_per_second": round(1 / whole),
    }


async def cell(queued: int, tenants: int, finished: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "state.db")
        queue = SqliteQueue(database)
        queue.open()
        if finished:
            await database.write(lambda connection: history(connection, finished))
        rate = await fill(queue, 0, queued, tenants)
        await drain(queue, 2)
        answer = await drain(queue, min(ROUNDS, queued // BATCH - 4))
        began = time.perf_counter()
        await queue.depth()
        answer["depth_ms"] = round((time.perf_counter() - began) * 1000, 2)
        answer["put_per_second"] = round(rate)
        answer["put_again_per_second"] = round(await fill(queue, queued, SMALL, tenants))
        await queue.close()
        await database.close()
        return answer


def history(connection: apsw.Connection, count: int) -> None:
    connection.execute(HISTORY, (count,)).fetchall()


async def measure(large: int) -> dict[str, dict[str, float]]:
    cells = {
        "small_one_lane": (SMALL, 1, 0),
        "small_many_lanes": (SMALL, 1000, 0),
        "large_one_lane": (large, 1, 0),
        "large_many_lanes": (large, 1000, 0),
        "large_one_lane_with_history": (large, 1, large),
    }
    found = {}
    for name, (queued, tenants, finished) in cells.items():
        found[name] = await cell(queued, tenants, finished)
    small, many = found["small_one_lane"]["both_us"], found["small_many_lanes"]["both_us"]
    found["ratios"] = {
        "large_to_small_one_lane": round(found["large_one_lane"]["both_us"] / small, 2),
        "large_to_small_many_lanes": round(found["large_many_lanes"]["both_us"] / many, 2),
        "with_history_to_small": round(found["large_one_lane_with_history"]["both_us"] / small, 2),
        "put_small_to_large": round(
            found["small_one_lane"]["put_again_per_second"]
            / found["large_one_lane"]["put_again_per_second"],
            2,
        ),
    }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=1_000_000)
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.large))
    one, many, ratios = found["small_one_lane"], found["small_many_lanes"], found["ratios"]
    growth = max(
        ratios[name]
        for name in ("large_to_small_one_lane", "large_to_small_many_lanes", "put_small_to_large")
    )
    report(
        "queueing",
        [
            Line(
                "claim and finish, one lane", one["jobs_per_second"], "jobs/s", 60_000, "at least"
            ),
            Line(
                "claim and finish, 1,000 lanes",
                many["jobs_per_second"],
                "jobs/s",
                20_000,
                "at least",
            ),
            Line("put", one["put_per_second"], "jobs/s", 100_000, "at least"),
            Line(
                f"put, {asked.large:,} queued and 1,000 lanes in turn in each batch",
                found["large_many_lanes"]["put_again_per_second"],
                "jobs/s",
            ),
            Line(f"cost at {asked.large:,} queued ÷ {SMALL:,}, the worst", growth, "", 1.5),
            Line(
                f"cost with {asked.large:,} finished as well ÷ without",
                ratios["with_history_to_small"],
                "",
                1.5,
            ),
        ],
        **found,
    )


if __name__ == "__main__":
    main()
