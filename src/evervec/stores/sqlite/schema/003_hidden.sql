-- Sets of chunks that no search sees, told by the number that their chunks have as their document:
-- the next set of a large document, which comes in parts, and those on their way out.
create table store_hidden (
    number integer primary key autoincrement,
    document integer,
    collection integer not null,
    -- Whose set it is.
    id text not null,
    fence integer not null,
    chunks integer not null default 0,
    going integer not null default 0,
    touched_at integer not null
);

create unique index store_hidden_by_document on store_hidden (document);

create index store_hidden_by_collection on store_hidden (collection, id);

-- The greatest number that a document has. SQLite would give out the next one by itself, also while
-- chunks that no search sees still have it, or, where all numbers are below zero, one of a set.
create view store_last as
select max(
    0,
    coalesce((select max(document) from store_document), 0),
    coalesce((select max(document) from store_hidden), 0)
) as document;

-- How far large documents have come, until they are published.
create table store_progress (
    collection integer not null,
    id text not null,
    done integer not null,
    total integer not null,
    told_at integer not null,
    primary key (collection, id)
) without rowid;
