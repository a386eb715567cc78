-- Every chunk's document exists.
-- checks: bib_chunks
SELECT c.chunk_id, c.doc_id, c.source, c.path
FROM bib_chunks AS c
ANTI JOIN bib_docs AS d USING (doc_id)
