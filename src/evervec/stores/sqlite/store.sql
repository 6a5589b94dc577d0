-- name: collection
select number, space, next_chunk, documents, chunks
from store_collection
where tenant = :tenant
  and name = :name
  and forgotten = 0

-- name: add_collection
insert into store_collection (tenant, name, space)
values (:tenant, :name, :space)

-- name: save_collection
update store_collection set
    space = :space,
    next_chunk = :next_chunk,
    documents = :documents,
    chunks = :chunks,
    fence = max(fence, :fence),
    revision = revision + 1
where number = :number

-- name: look
-- A row without a version is only a bar: nothing was ever stored of that document.
select id, version, fence, digest, chunks, deleted, space
from store_document
where collection = :collection
  and id in (select value from carray(:ids))
  and version is not null

-- name: states
select id, document, version, fence, bar, digest, space, deleted, chunks
from store_document
where collection = :collection
  and id in (select value from carray(:ids))

-- name: last_document
select document
from store_last

-- name: published
-- A document in sync without chunks has one row, whose vector is null. Unordered: the chunks'
-- positions come along.
select d.id, d.digest, d.chunks, c.position, v.value
from store_document as d
left join store_chunk as c on c.document = d.document
left join store_vector as v on v.number = c.vector
where d.collection = :collection
  and d.id in (select value from carray(:ids))
  and d.deleted = 0

-- name: known
select digest
from store_vector
where tenant = :tenant
  and space = :space
  and digest in (select value from carray(:digests))

-- name: vectors
select digest, number
from store_vector
where tenant = :tenant
  and space = :space
  and digest in (select value from carray(:digests))

-- name: kept
select number, value
from store_vector
where tenant = :tenant
  and space = :space
  and digest = :digest

-- name: width
select length(value)
from store_vector
where tenant = :tenant
  and space = :space
limit 1

-- name: keep
-- What is there already stays: equal text has an equal vector, up to its last digits.
insert into store_vector (tenant, space, digest, value)
values (:tenant, :space, :digest, :value)
on conflict (tenant, space, digest) do nothing
returning number

-- name: replace_vector
update store_vector set
    value = :value
where number = :number

-- name: add_unused
insert or ignore into store_unused (vector, since)
select value, :since
from carray(:vectors)

-- name: use
delete from store_unused
where vector in (select value from carray(:vectors))

-- name: chunks_of_vector
select chunk
from store_chunk
where vector = :vector

-- name: renumber
update store_chunk set
    chunk = :new
where chunk = :chunk

-- name: take_chunk_number
update store_collection set
    next_chunk = next_chunk + 1,
    revision = revision + 1
where number = :number
returning next_chunk - 1

-- name: chunks
-- Without their texts, which the digests stand for: of a large document they are 100 MB and more.
select document, chunk, position, vector, first, last, page, digest, heading
from store_chunk
where document in (select value from carray(:documents))

-- name: add_document
insert into store_document (
    document, collection, id, version, fence, digest, space,
    deleted, chunks, since, published_at, metadata
)
values (
    :document, :collection, :id, :version, :fence, :digest, :space,
    :deleted, :chunks, :since, :published_at, :metadata
)

-- name: replace_document
update store_document set
    version = :version,
    fence = :fence,
    digest = :digest,
    space = :space,
    deleted = :deleted,
    chunks = :chunks,
    since = :since,
    published_at = :published_at,
    metadata = :metadata
where document = :document

-- name: touch_document
-- The same text at a newer version: no chunk changes.
update store_document set
    version = :version,
    fence = :fence,
    digest = :digest,
    metadata = :metadata,
    since = :since,
    published_at = :published_at
where document = :document

-- name: renumber_document
-- What belongs to a document is what has its number.
update store_document set
    document = :new
where document = :document

-- name: add_chunk
insert into store_chunk (
    chunk, document, position, vector, first, last, page, digest, heading, text, words
)
values (
    :chunk, :document, :position, :vector, :first, :last, :page, :digest, :heading, :text, :words
)

-- name: add_words
-- The full text follows its chunks by statements over sets. Triggers cannot forget it, but they
-- make it write a piece of its own for each row: publishing took two to three times as long.
insert into store_text (rowid, words)
select chunk, words
from store_words
where chunk in (select value from carray(:chunks))
order by chunk

-- name: remove_words
-- Before the chunks go: the full text must be told what it once was given.
insert into store_text (store_text, rowid, words)
select 'delete', chunk, words
from store_words
where chunk in (select value from carray(:chunks))
order by chunk

-- name: move_chunk
update store_chunk set
    position = :position,
    first = :first,
    last = :last,
    page = :page
where chunk = :chunk

-- name: remove_chunks
delete from store_chunk
where chunk in (select value from carray(:chunks))

-- name: leave
-- Where the last chunk that used one is gone, it is only kept for a while from now on.
insert into store_unused (vector, since)
select value, :since
from carray(:vectors)
where not exists (select 1 from store_chunk where vector = value)
on conflict (vector) do nothing

-- name: bar
insert into store_document (document, collection, id, bar)
values ((select document + 1 from store_last), :collection, :id, :bar)
on conflict (collection, id) do update set
    bar = max(bar, excluded.bar)

-- name: documents
select id, version, fence, digest, chunks, deleted, space
from store_document
where collection = :collection
  and id > :after
  and deleted = 0
order by id
limit :limit

-- name: damaged
select id
from store_damaged
where collection = :collection

-- name: damaged_document
select id
from store_damaged
where collection = :collection
  and id = :id

-- name: highest_fence
select max(fence) from store_collection

-- name: scopes
select tenant, name from store_collection where forgotten = 0

-- name: lags
select max(published_at - since, 0)
from store_document
where collection = :collection
  and deleted = 0
  and since is not null
order by published_at desc
limit :limit

-- name: forget
update store_collection set
    forgotten = 1
where tenant = :tenant
  and name = :name
  and forgotten = 0

-- name: forgotten
select number
from store_collection
where forgotten = 1
limit 1

-- name: some_documents
select document, id, chunks
from store_document
where collection = :collection
limit :limit

-- name: chunks_to_remove
select chunk, vector
from store_chunk
where document in (select value from carray(:documents))

-- name: remove_documents
delete from store_document
where document in (select value from carray(:documents))

-- name: remove_collection
delete from store_collection
where number = :number

-- name: prune
select vector
from store_unused
where since < :unused_before
order by since
limit :limit

-- name: remove_vector
-- Whatever the list says, a vector that a chunk uses stays.
delete from store_vector
where number = :vector
  and not exists (select 1 from store_chunk where vector = :vector)
