-- One row: what the whole queue shares. `fence` is epoch << 40 | n and never goes back.
-- The cursors are durable so that the order stays fair among processes and across restarts;
-- they lie on the page that a claim writes anyway.
create table queue_meta (
    one integer primary key check (one = 1),
    fence integer not null,
    mode text not null,
    live_lane integer not null default 0,
    live_spent integer not null default 0,
    backfill_lane integer not null default 0,
    backfill_spent integer not null default 0
);

insert into queue_meta (one, fence, mode) values (1, 1 << 40, 'running');

-- A tenant's live lane is its number, its backfill lane the negative of it: each kind of lane
-- is one range of the index below.
create table queue_tenant (
    number integer primary key,
    tenant text not null unique,
    tier integer not null default 1
);

-- Rows stay when a collection is forgotten: their numbers are remembered outside the file.
create table queue_scope (
    number integer primary key,
    lane integer not null,
    tenant text not null,
    collection text not null,
    unique (tenant, collection)
);

-- States: 0 ready, 1 delayed, 2 leased, 3 failed, 4 quarantined, 5 cancelled, 6 suspect.
-- `run_key` is the order inside a lane (ready_at + priority minutes); while delayed, when it is due.
-- `newer` is when the first change came that the present holder has not seen.
-- `force`: bit 1 for the attempt to come or under way, bit 2 came while it was under way.
-- `together` is how many suspects may be taken at once, 0 for what was taken as ready.
-- `ended_at` is set while parked.
create table job (
    job integer primary key autoincrement,
    scope integer not null,
    document text not null,
    lane integer not null,
    state integer not null,
    run_key integer not null,
    lease integer not null default 0,
    want integer not null default 1,
    took integer not null default 0,
    priority integer not null default 0,
    attempts integer not null default 0,
    crashes integer not null default 0,
    releases integer not null default 0,
    force integer not null default 0,
    since integer not null,
    newer integer,
    streak integer not null default 0,
    together integer not null default 0,
    ended_at integer,
    reason text not null default '',
    kind text not null default '',
    stack text not null default ''
);

create unique index job_document on job (scope, document);

-- `scope` and `since` ride along so that counts and ages never touch the table.
create index job_ready on job (lane, run_key, scope, since) where state = 0;

create index job_delayed on job (run_key, scope, since) where state = 1;

create index job_leased on job (lease, scope, since) where state = 2;

create index job_suspect on job (together, run_key, scope, since) where state = 6;

create index job_parked on job (state) where ended_at is not null;

create index job_ended on job (ended_at) where ended_at is not null;

-- `expires` is in milliseconds of the boot clock of `boot`.
create table lease (
    fence integer primary key,
    name text not null,
    host text not null,
    pid integer not null,
    started integer not null,
    boot text not null,
    expires integer not null,
    size integer not null
);

-- Jobs taken away from a lease that still runs: its holder hears of them when it renews.
create table lease_stopped (
    fence integer not null,
    job integer not null,
    primary key (fence, job)
) without rowid;

-- Appended in order of time and pruned from its start, so it needs no index of its own.
create table finished (
    seq integer primary key,
    job integer not null,
    scope integer not null,
    document text not null,
    fence integer not null,
    attempts integer not null,
    since integer not null,
    ended_at integer not null
);
