-- name: identity
select identity from store_identity

-- name: collection
select number, space, next_chunk, chunks, revision, documents
from store_collection
where tenant = :tenant
  and name = :name
  and forgotten = 0

-- name: new_chunks
-- Chunks are numbered in commit order, so what an index lacks lies behind its last.
select c.chunk, c.digest, v.value
from store_chunk as c
join store_vector as v on v.number = c.vector
where c.chunk > :last
  and c.chunk < :end
order by c.chunk
limit :limit

-- name: live_chunks
select chunk
from store_chunk
where chunk >= :first
  and chunk < :end
order by chunk

-- name: matching
-- Each condition must be met by its field: by any of its values, or, if it says other than, by none
-- of them. Equal means of the same JSON type too; greater and less hold within numbers and texts.
with wanted as materialized (
    select
        value ->> 0 as field,
        value ->> 1 as comparison,
        value -> 2 as choices
    from json_each(:wanted)
)
select c.chunk
from store_document as d
join store_chunk as c on c.document = d.document
where d.collection = :collection
  and d.deleted = 0
  and :conditions = (
      select count(*)
      from json_each(d.metadata) as m
      join wanted as w on w.field = m.key
      where (w.comparison <> '!=') = exists (
          select 1
          from json_each(w.choices) as v
          where case
              when w.comparison in ('=', '!=')
                  then m.value is v.value and (m.atom is null) = (v.atom is null)
              when m.type not in ('integer', 'real', 'text') or (m.type = 'text') <> (v.type = 'text')
                  then 0
              when w.comparison = '<' then m.value < v.value
              when w.comparison = '<=' then m.value <= v.value
              when w.comparison = '>' then m.value > v.value
              else m.value >= v.value
          end
      )
  )

-- name: places
select c.chunk, c.digest, d.id, c.position
from store_chunk as c
join store_document as d on d.document = c.document
where c.chunk in (select value from carray(:chunks))
  and d.deleted = 0

-- name: hits
select c.chunk, d.id, c.text, c.first, c.last, c.page, c.heading, d.metadata
from store_chunk as c
join store_document as d on d.document = c.document
where c.chunk in (select value from carray(:chunks))

-- name: lexical
-- Weights are those of the words, by their place in the search.
select rowid, evervec_bm25(store_text, :weights)
from store_text
where store_text match :words
  and rowid >= :first
  and rowid < :end

-- name: frequency
select count(*)
from (
    select 1
    from store_text
    where store_text match :words
      and rowid >= :first
      and rowid < :end
    limit :limit
)

-- name: having
select rowid
from store_text
where store_text match :words
  and rowid >= :first
  and rowid < :end

-- name: hidden
select c.chunk, h.going
from store_hidden as h
join store_chunk as c on c.document = h.document
where h.collection = :collection
