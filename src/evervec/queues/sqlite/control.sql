-- The operator's side of the queue.

-- name: jobs
-- By number, so that pages follow each other; the plus keeps the partial indexes out of it.
select job.job, tenant, collection, document, state, job.lane, priority, attempts, crashes,
    releases, since, run_key, name, reason, kind, stack, expires, boot
from job
join queue_scope on queue_scope.number = job.scope
left join lease on lease.fence = job.lease and job.state = 2
where job.job > ?1
    and (?2 is null or job.scope = ?2)
    and +state in (select value from carray(?3))
order by job.job
limit ?4

-- name: parked
-- Parked jobs are few among many: their own index finds them.
select job.job, tenant, collection, document, state, job.lane, priority, attempts, crashes,
    releases, since, run_key, null, reason, kind, stack, null, null
from job indexed by job_parked
join queue_scope on queue_scope.number = job.scope
where job.state = ?1
    and ended_at is not null
    and job.job > ?2
    and (?3 is null or job.scope = ?3)
order by job.job
limit ?4

-- name: find
select job.job, tenant, collection, document, state, job.lane, priority, attempts, crashes,
    releases, since, run_key, name, reason, kind, stack, expires, boot
from job
join queue_scope on queue_scope.number = job.scope
left join lease on lease.fence = job.lease and job.state = 2
where scope = ?1
    and document = ?2

-- name: replay
update job
set state = 0,
    run_key = ?2 + priority * 60000,
    attempts = 0,
    crashes = 0,
    releases = 0,
    streak = 0,
    ended_at = null,
    newer = null,
    force = force > 0,
    reason = '',
    kind = '',
    stack = ''
where job in (select value from carray(?1))
    and state in (3, 4, 5)
returning job, scope, document

-- name: fence
update queue_meta
set fence = fence + 1
returning fence

-- name: stop
insert or ignore into lease_stopped (fence, job)
select lease, job
from job
where scope = ?1
    and document = ?2
    and state = 2

-- name: cancel
update job
set state = 5,
    rest_by = null,
    ended_at = ?3
where scope = ?1
    and document = ?2
    and state in (0, 1, 2, 6)
returning job

-- name: drop
delete from job
where job in (select value from carray(?1))
    and state in (3, 4, 5)

-- name: stop_scope
insert or ignore into lease_stopped (fence, job)
select lease, job
from job indexed by job_leased
where state = 2
    and scope = ?1

-- name: forget
delete from job
where job in (select job from job where scope = ?1 limit ?2)

-- name: forget_finished
delete from finished
where seq in (select seq from finished where scope = ?1 limit ?2)

-- name: identity
select identity
from queue_meta

-- name: raise_fence
-- To a new epoch, so that every fence to come is above all that were ever seen.
update queue_meta
set fence = ((?1 >> 40) + 1) << 40
where fence < ?1
returning fence

-- name: set_mode
update queue_meta
set mode = ?1
where mode <> ?1

-- name: mode
select mode, (select count(*) from job where state = 2)
from queue_meta

-- name: set_tier
insert into queue_tenant (tenant, tier)
values (?1, ?2)
on conflict (tenant) do update set tier = excluded.tier

-- name: depth
-- Counts run over the partial indexes alone: about 30 ms for a million waiting jobs.
select
    0, count(*), min(since)
from job
where state = 0
    and (?1 is null or scope = ?1)
union all
select
    1, count(*), min(since)
from job
where state = 1
    and (?1 is null or scope = ?1)
union all
select
    2, count(*), min(since)
from job
where state = 2
    and (?1 is null or scope = ?1)
union all
select
    6, count(*), min(since)
from job
where state = 6
    and (?1 is null or scope = ?1)

-- name: depth_parked
select count(*)
from job
where state = ?1
    and ended_at is not null
    and (?2 is null or scope = ?2)

-- name: prune_finished
delete from finished
where seq in (select seq from finished order by seq limit ?2)
    and ended_at < ?1

-- name: prune_parked
delete from job
where job in (select job from job where ended_at < ?1 order by ended_at limit ?2)
