-- While a job waits for its document to come to rest: when it goes at the latest, restless or not.
alter table job add column rest_by integer;
