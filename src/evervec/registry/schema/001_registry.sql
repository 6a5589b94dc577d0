create table space (
    number integer primary key,
    model text not null,
    revision text not null,
    dimension integer not null,
    normalised integer not null,
    recipe integer not null,
    unique (model, revision, dimension, normalised, recipe)
);

-- `autoincrement`: a number is never given again, so notes and log lines stay unambiguous.
create table collection (
    number integer primary key autoincrement,
    tenant text not null,
    name text not null,
    source text not null,
    recipe text not null,
    space integer not null references space,
    halted text not null default '',
    unique (tenant, name)
);

create table note (
    collection integer not null,
    name text not null,
    value blob not null,
    primary key (collection, name)
) without rowid;

create table setting (
    name text primary key,
    value text not null
) without rowid;
