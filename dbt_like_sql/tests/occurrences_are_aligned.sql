-- The lists of a content speak of the same occurrences: they are of one length, and none is empty.
-- checks: unique_chunks
SELECT content_id, len(sources) AS sources, len(paths) AS paths
FROM unique_chunks
WHERE len(sources) = 0
    OR list_unique([len(sources), len(source_types), len(apps), len(slugs), len(paths), len(languages)]) > 1
