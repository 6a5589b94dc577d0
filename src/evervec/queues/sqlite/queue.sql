-- The worker's side. States are literals because a bound value defeats the partial indexes.

-- name: meta
select fence, mode, live_lane, live_spent, backfill_lane, backfill_spent
from queue_meta

-- name: tenant
insert into queue_tenant (tenant)
values (?1)
on conflict (tenant) do nothing

-- name: scope
insert into queue_scope (lane, tenant, collection)
values (
    (
        select number
        from queue_tenant
        where tenant = ?1
    ), ?1, ?2
)

-- name: find_scope
select number, lane
from queue_scope
where tenant = ?1
    and collection = ?2

-- name: name_scope
select tenant, collection, lane
from queue_scope
where number = ?1

-- name: newest
select coalesce(max(job), 0)
from job

-- name: put
-- One row a document. Parked rows (3, 4, 5) start over; a held row (2) only learns that more is
-- wanted, and finishing finds that; a delayed row (1) keeps its backoff, unless it only waits for
-- its document to come to rest; the age is the oldest change's. A live change takes a backfill row
-- along, never the other way round.
insert into job (scope, document, lane, state, run_key, priority, force, since)
values (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7)
on conflict (scope, document) do update set
    want = want + 1,
    lane = case
        when state in (3, 4, 5) then excluded.lane
        else max(lane, excluded.lane)
    end,
    run_key = case
        when state in (0, 6) then min(run_key, excluded.run_key)
        when state in (3, 4, 5) then excluded.run_key
        when rest_by is not null then min(rest_by, ?8)
        else run_key
    end,
    priority = case
        when state in (3, 4, 5) then excluded.priority
        else min(priority, excluded.priority)
    end,
    force = case
        when state in (3, 4, 5) then excluded.force
        when state = 2 then force | (excluded.force << 1)
        else force | excluded.force
    end,
    since = case
        when state in (3, 4, 5) then excluded.since
        else min(since, excluded.since)
    end,
    newer = case
        when state = 2 then min(coalesce(newer, excluded.since), excluded.since)
        else null
    end,
    attempts = case when state in (3, 4, 5) then 0 else attempts end,
    crashes = case when state in (3, 4, 5) then 0 else crashes end,
    releases = case when state in (3, 4, 5) then 0 else releases end,
    streak = case when state in (3, 4, 5) then 0 else streak end,
    reason = case when state in (3, 4, 5) then '' else reason end,
    kind = case when state in (3, 4, 5) then '' else kind end,
    stack = case when state in (3, 4, 5) then '' else stack end,
    state = case when state in (3, 4, 5) then 0 else state end,
    ended_at = null

-- name: created
-- Numbers only grow, so what is behind the newest of before is what this put created.
select count(*)
from job
where job > ?1

-- name: promote
-- Bounded, so that a claim after a long pause stays short; the rest follows with the next claim.
update job
set state = 0,
    rest_by = null,
    run_key = run_key + priority * 60000
where job in (
    select job
    from job
    where state = 1
        and run_key <= ?1
    order by run_key
    limit ?2
)

-- name: due
select min(run_key)
from job
where state = 1
    and run_key > ?1

-- name: suspects
-- The largest groups first: they clear most innocents. Few rows, so the lane is only a filter.
select together
from job
where state = 6
    and lane >= ?1
    and lane <= ?2
order by together desc
limit 1

-- name: company
-- How many leases a process holds, and whether one of them is for a suspect that has to be alone.
select
    count(*),
    coalesce(max(size = 1 and exists (
        select 1
        from job
        where state = 2
            and job.lease = lease.fence
            and together = 1
    )), 0)
from lease
where name = ?1
    and host = ?2
    and pid = ?3
    and started = ?4
    and boot = ?5

-- name: claim_suspects
update job
set state = 2,
    lease = ?1,
    took = want
where job in (
    select job
    from job
    where state = 6
        and together = ?2
        and lane >= ?3
        and lane <= ?4
    order by run_key
    limit ?5
)
returning job, scope, document, lane, took, attempts, force, since

-- name: lanes
-- A loose scan: one seek for each lane that has ready jobs, whatever their number.
with recursive walk (lane) as (
    select min(lane)
    from job
    where state = 0
        and lane >= ?1
        and lane <= ?2
    union all
    select (
        select min(job.lane)
        from job
        where state = 0
            and job.lane > walk.lane
            and job.lane <= ?2
    )
    from walk
    where walk.lane is not null
    limit ?3
)
select walk.lane, queue_tenant.tier
from walk
join queue_tenant on queue_tenant.number = abs(walk.lane)

-- name: claim
update job
set state = 2,
    lease = ?1,
    took = want,
    together = 0
where job in (
    select job
    from job
    where state = 0
        and lane = ?2
    order by run_key
    limit ?3
)
returning job, scope, document, lane, took, attempts, force, since

-- name: claimed
update queue_meta
set fence = ?1,
    live_lane = ?2,
    live_spent = ?3,
    backfill_lane = ?4,
    backfill_spent = ?5

-- name: lease
insert into lease (fence, name, host, pid, started, boot, expires, size)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: renew
-- An expired lease stays lost, even if nobody noticed yet.
update lease
set expires = max(expires, ?1)
where fence = ?2
    and expires > ?3
    and name = ?4
    and host = ?5
    and pid = ?6
    and started = ?7
    and boot = ?8
returning fence

-- name: stopped
select job
from lease_stopped
where fence = ?1

-- name: finish
-- By job number, hence the plus: a lease of 500 may be settled in 500 parts.
insert into finished (job, scope, document, fence, attempts, since, ended_at)
select job, scope, document, lease, attempts, since, ?3
from job
where job in (select value from carray(?1))
    and +lease = ?2
    and state = 2
    and want = took

-- name: remove_finished
delete from job
where job in (select value from carray(?1))
    and +lease = ?2
    and state = 2
    and want = took
returning job

-- name: again
-- Changed while it was worked on. What was read is published, so the age and the force that are
-- left are those of the newer changes. A document that changes all the time is debounced: at first
-- not at all, then it goes when it has come to rest, or after 50, 100 ms and so on to 2 s.
update job
set state = 1,
    run_key = case streak when 0 then ?3 else ?4 end,
    rest_by = case when streak > 0 then ?3 + min(2000, 50 << min(streak - 1, 6)) end,
    streak = streak + 1,
    attempts = 0,
    crashes = 0,
    releases = 0,
    since = coalesce(newer, since),
    newer = null,
    force = force >> 1,
    reason = '',
    kind = '',
    stack = ''
where job in (select value from carray(?1))
    and +lease = ?2
    and state = 2
returning job

-- name: held
select job, scope, document, want > took, attempts, priority
from job
where job in (select value from carray(?1))
    and +lease = ?2
    and state = 2

-- name: retry
update job
set state = 1,
    run_key = ?2,
    attempts = attempts + 1,
    reason = ?3,
    kind = ?4,
    stack = ?5
where job = ?1

-- name: fail
update job
set state = 3,
    ended_at = ?2,
    attempts = attempts + 1,
    reason = ?3,
    kind = ?4,
    stack = ?5
where job = ?1

-- name: anew
-- It did not succeed, but what failed is not what is wanted any more.
update job
set state = 1,
    run_key = ?2,
    attempts = 0,
    force = force > 0,
    newer = null
where job = ?1

-- name: release
-- Ready at once it keeps its place in the line.
update job
set state = 0,
    releases = releases + 1,
    force = force > 0,
    newer = null,
    reason = ?2
where job = ?1

-- name: release_later
update job
set state = 1,
    run_key = ?3,
    releases = releases + 1,
    force = force > 0,
    newer = null,
    reason = ?2
where job = ?1

-- name: end_lease
delete from lease
where fence = ?1
    and not exists (select 1 from job where state = 2 and job.lease = ?1)

-- name: end_stopped
delete from lease_stopped
where fence = ?1
    and not exists (select 1 from lease where lease.fence = ?1)

-- name: leases
select fence, name, host, pid, started, boot, expires, size
from lease

-- name: still_expired
-- The boot clock only goes forward and an expired lease is never renewed, so what was decided
-- outside this transaction still holds; only another reaper may have been faster.
select
    fence, name, size, (
        select count(*)
        from lease as other
        where other.name = lease.name
            and other.host = lease.host
            and other.pid = lease.pid
            and other.started = lease.started
            and other.boot = lease.boot
    )
from lease
where fence in (select value from carray(?1))

-- name: orphans
select job, scope, document, crashes
from job
where state = 2
    and lease = ?1

-- name: suspect
-- Attempts stay: nobody knows yet whose fault it was.
update job
set state = 6,
    together = ?2,
    crashes = crashes + ?3,
    force = force > 0,
    newer = null
where state = 2
    and lease = ?1

-- name: quarantine
-- A text that came meanwhile was never tried: it gets its turn, alone, before the job is parked.
update job
set state = 4,
    ended_at = ?2,
    reason = ?4,
    kind = 'crash'
where state = 6
    and lease = ?1
    and crashes >= ?3
    and want = took
returning job, scope, document, crashes

-- name: drop_lease
delete from lease
where fence = ?1
