-- A chunk's text is the slice of its document that its offsets name, to the character.
-- checks: bib_chunks
SELECT c.chunk_id, c.source, c.path, c.start, c."end"
FROM bib_chunks AS c
JOIN bib_docs AS d USING (doc_id)
JOIN bib_chunked_docs AS cut USING (doc_id)
-- A document that has changed since it was cut is for the next run of `chunks`.
WHERE cut.content_hash = d.content_hash AND c.text <> substring(d.text, c.start + 1, c."end" - c.start)
