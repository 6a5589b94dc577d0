-- Checks over the tables of queue and store. Nothing here is run by the product.

-- name: audit
create temp table audit (rule text not null, detail text not null)

-- name: audit_version
-- Bars change a row without publishing, so only a change of version or fence counts.
create temp trigger audit_version after update of version, fence on main.store_document
when old.version is not null
    and (new.version, new.fence) is not (old.version, old.fence)
    and not (
        new.version > old.version
        or (new.version = old.version and new.fence > old.fence)
    )
begin
    insert into audit
    values (
        iif(new.version < old.version, 'S2', 'S3'),
        printf('%s went from (%d, %d) to (%d, %d)',
            new.id, old.version, old.fence, new.version, new.fence)
    );
end

-- name: audit_tombstone
create temp trigger audit_tombstone after delete on main.store_document
when old.version is not null
    and exists (
        select 1 from main.store_collection where number = old.collection and forgotten = 0
    )
begin
    insert into audit values ('S4', printf('the tombstone of %s was removed', old.id));
end

-- name: audit_bar
-- What was cancelled while it was worked on is not published.
create temp trigger audit_bar after update of version, fence on main.store_document
when new.fence <= new.bar
    and (new.version, new.fence) is not (old.version, old.fence)
begin
    insert into audit
    values ('S7', printf('%s was published under fence %d, barred up to %d', new.id, new.fence, new.bar));
end

-- name: audit_reap
-- Only a lease that ran out, or whose holder is dead, may be taken back.
create temp trigger audit_reap after update of state on main.job
when old.state = 2 and new.state = 6
    and exists (select 1 from main.lease where fence = old.lease and may_reap(pid, expires) = 0)
begin
    insert into audit
    values ('S5', printf('job %d was taken from the living holder of lease %d', new.job, old.lease));
end

-- name: audit_claim
create temp trigger audit_claim after update of state on main.job
when new.state = 2 and old.state is not 2
    and (select mode from main.queue_meta) <> 'running'
begin
    insert into audit values ('S9', printf('job %d was handed out while paused', new.job));
end

-- name: audit_hold
create temp trigger audit_hold after update of state, lease on main.job
when new.state = 2
    and (
        (old.state = 2 and old.lease <> new.lease)
        or (old.state not in (0, 6) and old.state <> 2)
        or (old.state <> 2 and new.lease <= old.lease)
    )
begin
    insert into audit
    values (
        'S5',
        printf('job %d in state %d under lease %d was taken under %d',
            new.job, old.state, old.lease, new.lease)
    );
end

-- name: audit_settle
-- Handed back or parked by a settlement: the lease must have been the settler's own.
create temp trigger audit_settle after update of state on main.job
when old.state = 2 and new.state <> 2 and may_settle(old.lease) = 0
begin
    insert into audit
    values ('S7', printf('job %d was settled under lease %d by a stranger', old.job, old.lease));
end

-- name: audit_remove
create temp trigger audit_remove after delete on main.job
when old.state not in (3, 4, 5)
    and (old.state <> 2 or may_settle(old.lease) = 0 or old.want > old.took)
begin
    insert into audit
    values (
        iif(old.want > old.took, 'S6', 'S7'),
        printf('job %d in state %d, want %d, took %d, was removed',
            old.job, old.state, old.want, old.took)
    );
end

-- name: audit_parked
-- Cancelled is what a person asked for; failed and quarantined are about what was taken.
create temp trigger audit_parked after update of state on main.job
when new.state in (3, 4) and new.want > new.took
begin
    insert into audit
    values (
        'S10',
        printf('job %d was parked in state %d though %d is wanted and %d was taken',
            new.job, new.state, new.want, new.took)
    );
end

-- name: rare
create temp table rare (state text not null)

-- name: rare_states_of_jobs
create temp trigger rare_states_of_jobs after update of state on main.job
when new.state <> old.state
begin
    insert into rare
    select 'failed and revived' where old.state = 3 and new.state in (0, 1)
    union all
    select 'cancelled while leased' where old.state = 2 and new.state = 5
    union all
    select 'suspect taken alone' where old.state = 6 and new.state = 2 and old.together = 1
    union all
    select 'quarantined' where new.state = 4
    union all
    select 'quarantined and revived' where old.state = 4 and new.state = 0
    union all
    select 'reaped' where old.state = 2 and new.state = 6
    union all
    select 'reaped while dirty' where old.state = 2 and new.state = 6 and new.want > new.took
    union all
    select 'changed while leased' where old.state = 2 and new.state = 1 and new.want > new.took
    union all
    select 'failed' where new.state = 3;
end

-- name: rare_states
select state, count(*)
from rare
group by state

-- name: audited
delete from audit returning rule, detail

-- name: queued
select queue_scope.tenant, collection, document
from job
join queue_scope on queue_scope.number = job.scope

-- name: digests
select tenant, name, id, digest
from store_document
join store_collection on store_collection.number = store_document.collection
where deleted = 0
    and forgotten = 0

-- name: chunks
select store_collection.tenant, name, id, text, value
from store_chunk
join store_document on store_document.document = store_chunk.document
join store_collection on store_collection.number = store_document.collection
join store_vector on store_vector.number = store_chunk.vector
where forgotten = 0
order by store_chunk.document, position

-- name: orphan_chunks
select chunk
from store_chunk
left join store_document on store_document.document = store_chunk.document
left join store_vector on store_vector.number = store_chunk.vector
where store_document.document is null and not exists (
        select 1
        from store_hidden
        where store_hidden.document = store_chunk.document
            and store_hidden.collection = chunk >> 40
    )
    or store_vector.number is null
    or store_document.deleted = 1
    or store_document.collection <> chunk >> 40

-- name: foreign_vectors
select chunk
from store_chunk
join store_document on store_document.document = store_chunk.document
join store_collection on store_collection.number = store_document.collection
join store_vector on store_vector.number = store_chunk.vector
where store_vector.tenant <> store_collection.tenant
    or store_vector.space <> store_collection.space
    or store_vector.digest <> store_chunk.digest

-- name: wrong_counts
select number, documents, chunks
from store_collection
where documents <> (
        select count(*)
        from store_document
        where collection = number
            and deleted = 0
    )
    or chunks <> (
        select count(*)
        from store_chunk
        where chunk >> 40 = number
            and document not in (select document from store_hidden where document is not null)
    )

-- name: unused_in_use
select store_unused.vector
from store_unused
join store_chunk on store_chunk.vector = store_unused.vector

-- name: check_full_text
insert into store_text (store_text) values ('integrity-check')

-- name: ended_twice
select job
from finished
group by job
having count(*) > 1

-- name: lease_without_jobs
select fence
from lease
where not exists (select 1 from job where state = 2 and job.lease = fence)

-- name: job_without_lease
select job
from job
where state = 2
    and not exists (select 1 from lease where fence = job.lease)

-- name: said
select data from event
union all
select reason || stack from job
