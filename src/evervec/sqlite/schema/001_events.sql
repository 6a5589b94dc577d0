create table event_number (
    tenant text primary key,
    last integer not null
) without rowid;

create table event (
    seq integer primary key autoincrement,
    tenant text not null,
    number integer not null,
    type text not null,
    collection text not null,
    document text,
    at integer not null,
    data text not null
);

create unique index event_by_tenant on event (tenant, number);
