-- A file that could not be read this time keeps what was read of it before, and is marked stale.
-- checks: bib_docs
-- severity: warn
SELECT source, path, read_at FROM bib_docs WHERE stale
