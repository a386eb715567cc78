-- Session documents are without LOG.md, reports/ and _archive/: what is archived must not answer questions.
-- checks: bib_docs
SELECT source, path
FROM bib_docs
WHERE source_type = 'session' AND regexp_matches(path, '(^|/)(LOG\.md$|reports/|_archive/)')
