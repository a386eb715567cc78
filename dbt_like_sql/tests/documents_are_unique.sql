-- A document is there once: its id, and its path within a source.
-- checks: bib_docs
SELECT doc_id, source, path, count(*) OVER same_id AS of_this_id, count(*) OVER same_path AS of_this_path
FROM bib_docs
WINDOW same_id AS (PARTITION BY doc_id), same_path AS (PARTITION BY source, path)
QUALIFY of_this_id > 1 OR of_this_path > 1
