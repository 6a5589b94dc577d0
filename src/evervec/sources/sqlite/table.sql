-- Everything that is said to a user's file. A `{slot}` takes a quoted name, a number, or a piece
-- made of the small templates below. What is stored in the file (tables, triggers) keeps to words
-- that any SQLite of the last fifteen years knows, since whoever writes runs it.

-- name: log
-- The keys have no type, so that 1 and '1' stay what they are. No further column: one more, a
-- random stamp say, takes a watched insert from 1.4 to 1.8 times the processor time.
create table {log} (seq integer primary key, {keys})

-- name: start
-- A row without a key, so that a cursor has something to point at from the first moment.
insert into {log} (k1) values (null)

-- name: on_insert
create trigger {name} after insert on {table} begin
    insert into {log} ({keys}) values ({new});
end

-- name: on_delete
create trigger {name} after delete on {table} begin
    insert into {log} ({keys}) values ({old});
end

-- name: on_update
-- No conflict is possible in here, so the outer statement's `or ignore`, `or replace` or
-- `or fail`, which would rule in a trigger too, has nothing to rule over.
create trigger {name} after update {columns} on {table} when {differs} begin
    insert into {log} ({keys}) values ({new});
end

-- name: on_move
-- The key itself changed: the document under the old one is gone.
create trigger {name} after update {columns} on {table} when {differs} begin
    insert into {log} ({keys}) values ({old});
end

-- name: on_clash_insert
-- REPLACE removes rows that collide on another unique index, and fires no delete trigger for them.
create trigger {name} before insert on {table} begin
    insert into {log} ({keys}) select {own} from {table} where {same};
end

-- name: on_clash_update
create trigger {name} before update {columns} on {table} when {differs} begin
    insert into {log} ({keys}) select {own} from {table} where {same};
end

-- name: on_append
-- The log is a ring: it stays bounded although nobody may be there to consume it.
create trigger {name} after insert on {log} when new.seq % {every} = 0 begin
    delete from {log} where seq <= new.seq - {ring};
end

-- name: drop_trigger
drop trigger if exists {name}

-- name: drop_log
drop table if exists {log}

-- name: of
of {columns}

-- name: new
new.{column}

-- name: old
old.{column}

-- name: column
{column}

-- name: differs
-- By bytes: the column's own collation may hold 'a' and 'A' to be the same.
old.{column} collate binary is not new.{column}

-- name: differs_in_type
-- 1 and 1.0 are equal and are written differently.
typeof(old.{column}) is not typeof(new.{column})

-- name: same
{column} = new.{column} collate {collation}

-- name: equal
{column} collate {collation} = ?

-- name: above
{column} collate {collation} > ?

-- name: below
{column} collate {collation} < ?

-- name: present
{column} is not null

-- name: upwards
{column} collate {collation} asc

-- name: downwards
{column} collate {collation} desc

-- name: where
(
{where}
)

-- name: try_where
select 1 from {table} where {where} limit 0

-- name: scan
select {keys} from {table}
where {where}
order by {order}
limit ?

-- name: read
select {columns} from {table}
where {where}

-- name: vector
select {keys}, {into} from {table}
where {where}

-- name: write_vector
-- No trigger of ours looks at this column.
update {table} set {into} = ?
where {where}

-- name: last
select seq from {log} order by seq desc limit 1

-- name: since
select * from {log} where seq >= ? order by seq limit ?

-- name: tail
select * from {log} where seq <= ? order by seq desc limit ?

-- name: begin
begin

-- name: begin_write
begin immediate

-- name: commit
commit

-- name: rollback
rollback

-- name: definitions
select name, sql from sqlite_master where name is not null and sql is not null

-- name: tables
select name, type, sql from sqlite_master where type in ('table', 'view')

-- name: columns
select name, type, pk, hidden from pragma_table_xinfo(?) order by cid

-- name: indexes
select name, origin, partial from pragma_index_list(?) where "unique"

-- name: index
select name, coll, "desc" from pragma_index_xinfo(?) where key order by seqno
