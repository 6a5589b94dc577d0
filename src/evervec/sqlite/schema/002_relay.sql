-- How far another database's log has been copied into this one, by that database's own name.
create table event_relay (
    origin text primary key,
    seq integer not null
) without rowid;
