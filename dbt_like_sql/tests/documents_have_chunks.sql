-- A document without any chunk cannot be found: it is empty, or has nothing but front matter.
-- checks: bib_chunks
-- severity: warn
SELECT d.source, d.path, d.bytes
FROM bib_docs AS d
ANTI JOIN bib_chunks AS c USING (doc_id)
