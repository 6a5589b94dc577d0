-- Tells this queue from another one at the same path: whoever finds a new identity knows that what
-- the old queue held is lost.
alter table queue_meta add column identity text not null default '';

update queue_meta set identity = lower(hex(randomblob(8)));
