-- name: number
-- Facts are numbered within their tenant, so that no tenant learns how busy another is.
insert into event_number (tenant, last)
values (?1, ?2)
on conflict (tenant) do update set last = last + excluded.last
returning last

-- name: append
insert into event (tenant, number, type, collection, document, at, data)
values (?, ?, ?, ?, ?, ?, ?)

-- name: after
select number, type, collection, document, at, data
from event
where tenant = ?1 and number > ?2
order by number
limit ?3

-- name: last
select last from event_number where tenant = ?1

-- name: prune
-- Rows are appended in time order, so the oldest have the lowest numbers.
delete from event
where seq in (select seq from event where at < ?1 and seq <= (select min(seq) + ?2 from event) order by seq limit ?2)

-- name: relayed
select seq from event_relay where origin = ?1

-- name: relay_to
insert into event_relay (origin, seq)
values (?1, ?2)
on conflict (origin) do update set seq = excluded.seq

-- name: remove_relayed
delete from event where seq <= ?1

-- name: behind
select seq, tenant, type, collection, document, at, data
from event
where seq > ?1
order by seq
limit ?2
