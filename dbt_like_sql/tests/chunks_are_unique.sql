-- A chunk is there once: its id, and its place in a document.
-- checks: bib_chunks
SELECT chunk_id, doc_id, ordinal, count(*) OVER same_id AS of_this_id, count(*) OVER same_place AS of_this_place
FROM bib_chunks
WINDOW same_id AS (PARTITION BY chunk_id), same_place AS (PARTITION BY doc_id, ordinal)
QUALIFY of_this_id > 1 OR of_this_place > 1
