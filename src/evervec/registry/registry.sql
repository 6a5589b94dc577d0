-- name: collections
select number, tenant, name, source, recipe, space, halted
from collection
order by number

-- name: find
select number, tenant, name, source, recipe, space, halted
from collection
where tenant = ?1 and name = ?2

-- name: add
insert into collection (tenant, name, source, recipe, space)
values (?1, ?2, ?3, ?4, ?5)

-- name: change
-- A changed definition is a fresh start: whatever halted the old one is over.
update collection
set source = ?3, recipe = ?4, space = ?5, halted = ''
where tenant = ?1 and name = ?2

-- name: remove_notes
delete from note
where collection = (select number from collection where tenant = ?1 and name = ?2)

-- name: remove
delete from collection
where tenant = ?1 and name = ?2

-- name: halt
update collection
set halted = ?3
where tenant = ?1 and name = ?2

-- name: add_space
insert into space (model, revision, dimension, normalised, recipe)
values (?1, ?2, ?3, ?4, ?5)
on conflict do nothing

-- name: space_number
select number
from space
where model = ?1 and revision = ?2 and dimension = ?3 and normalised = ?4 and recipe = ?5

-- name: space
select model, revision, dimension, normalised, recipe
from space
where number = ?1

-- name: notes
select name, value
from note
where collection = ?1 and name >= ?2 and name < ?3

-- name: write_note
insert into note (collection, name, value)
values (?1, ?2, ?3)
on conflict (collection, name) do update set value = excluded.value

-- name: remove_note
delete from note
where collection = ?1 and name = ?2

-- name: setting
select value from setting where name = ?1

-- name: set
insert into setting (name, value)
values (?1, ?2)
on conflict (name) do update set value = excluded.value

-- name: set_first
insert into setting (name, value)
values (?1, ?2)
on conflict (name) do nothing
