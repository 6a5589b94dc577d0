-- What is published. A document's row, its chunks and their full text always change in one
-- transaction. A collection's number is never given out twice, because files outside this database
-- are named after it.
create table store_collection (
    number integer primary key autoincrement,
    tenant text not null,
    name text not null,
    space integer not null,
    next_chunk integer not null default 1,
    documents integer not null default 0,
    chunks integer not null default 0,
    -- Grows with each change: what was derived at this revision is current.
    revision integer not null default 0,
    -- The highest under which anything of it was published.
    fence integer not null default 0,
    -- A forgotten collection is out of every answer at once; its rows go in bounded steps.
    forgotten integer not null default 0
);

-- What tells this database's derived files from those of another one at the same path.
create table store_identity (
    identity blob not null
);

insert into store_identity values (randomblob(16));

create unique index store_collection_by_name
    on store_collection (tenant, name) where forgotten = 0;

create index store_collection_forgotten on store_collection (number) where forgotten = 1;

-- A row without a version carries nothing but a bar. A deleted document keeps its row, so that a
-- late writer cannot bring it back.
create table store_document (
    document integer primary key,
    collection integer not null,
    id text not null,
    version integer,
    fence integer not null default 0,
    bar integer not null default 0,
    digest blob not null default x'',
    space integer not null default 0,
    deleted integer not null default 1,
    chunks integer not null default 0,
    since integer,
    published_at integer not null default 0,
    metadata text not null default '{}'
);

create unique index store_document_by_id on store_document (collection, id);

create index store_document_by_age
    on store_document (collection, published_at, since) where deleted = 0 and since is not null;

-- Named by (tenant, space, digest of the text): the ledger of what was paid for.
create table store_vector (
    number integer primary key autoincrement,
    tenant text not null,
    space integer not null,
    digest blob not null,
    value blob not null
);

create unique index store_vector_by_digest on store_vector (tenant, space, digest);

-- Vectors that no chunk uses, and since when. Beside the vectors, not in them: a vector's row is
-- large and would be written again for a flag.
create table store_unused (
    vector integer primary key,
    since integer not null
);

create index store_unused_by_age on store_unused (since);

-- A chunk's number is (collection << 40) | n with n growing for ever: a collection's chunks lie
-- side by side, here and in the full text, and what is new lies at the end.
create table store_chunk (
    chunk integer primary key,
    document integer not null,
    position integer not null,
    vector integer not null,
    first integer not null,
    last integer not null,
    page integer,
    digest blob not null,
    heading text not null,
    text text not null,
    -- Heading and text for the full text, if it would not find the words in them as they are.
    words text
);

create index store_chunk_by_document on store_chunk (document);

create index store_chunk_by_vector on store_chunk (vector);

-- The one place that says what the full text is made of.
create view store_words as
select chunk, coalesce(words, heading || char(10) || text) as words
from store_chunk;

-- No stemming: it knows one language and harms the others; case and accents are folded.
create virtual table store_text using fts5 (
    words,
    content = 'store_words',
    content_rowid = 'chunk',
    tokenize = 'unicode61 remove_diacritics 2'
);
