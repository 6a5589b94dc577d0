-- Live documents that are not whole. A chunk whose vector is lost counts as lost itself.
create view store_damaged as
select collection, id
from store_document
where deleted = 0
    and chunks <> (
        select count(*)
        from store_chunk
        join store_vector on store_vector.number = store_chunk.vector
        where store_chunk.document = store_document.document
    );
