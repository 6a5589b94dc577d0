-- name: begin
insert into store_hidden (collection, id, fence, touched_at)
values (:collection, :id, :fence, :now)
returning number

-- name: name
-- Below zero: no document that was published at once has such a number.
update store_hidden set
    document = -number
where number = :number

-- name: grow
update store_hidden set
    chunks = chunks + :chunks,
    touched_at = :now
where document = :document

-- name: complete
-- One that was given up may lack what was deleted already.
select count(*)
from store_hidden
where document = :document
  and going = 0
  and chunks = :chunks

-- name: show
delete from store_hidden
where document = :document

-- name: hide
insert into store_hidden (document, collection, id, fence, chunks, going, touched_at)
values (:document, :collection, :id, :fence, :chunks, 1, :now)

-- name: abandon
update store_hidden set
    going = 1
where document = :document

-- name: abandon_earlier
-- Whoever had one of an earlier lease died or lost it, or did not hear that a commit went through.
update store_hidden set
    going = 1
where collection = :collection
  and id = :id
  and fence <= :fence

-- name: abandon_old
update store_hidden set
    going = 1
where touched_at < :before
   or exists (
      select 1
      from store_document as d
      where d.collection = store_hidden.collection
        and d.id = store_hidden.id
        and d.fence >= store_hidden.fence
  )

-- name: abandon_collection
update store_hidden set
    going = 1
where collection = :collection

-- name: going
select document
from store_hidden
where going = 1
limit 1

-- name: some_chunks
select chunk, vector
from store_chunk
where document = :document
limit :limit

-- name: outline
-- A document's chunks without their texts.
select digest, position, first, last, page
from store_chunk
where document = (
    select document
    from store_document
    where collection = :collection
      and id = :id
)

-- name: advance
insert into store_progress (collection, id, done, total, told_at)
values (:collection, :id, :done, :total, :now)
on conflict (collection, id) do update set
    done = excluded.done,
    total = excluded.total,
    told_at = excluded.told_at

-- name: progress
-- What was told before the document was published is over.
select id, done, total
from store_progress as p
where collection = :collection
  and not exists (
      select 1
      from store_document as d
      where d.collection = p.collection
        and d.id = p.id
        and d.published_at >= p.told_at
  )
order by id

-- name: forget_progress
delete from store_progress
where told_at < :before
   or not exists (select 1 from store_collection where number = collection)
   or exists (
      select 1
      from store_document as d
      where d.collection = store_progress.collection
        and d.id = store_progress.id
        and d.published_at >= store_progress.told_at
  )
