-- How far the index is behind each source: when a document of it last changed, and when the index was last
-- found level with all of them. (When a source was last looked at is Dagster's to say: a look that finds
-- nothing new writes nothing.)
SELECT
    s.source,
    min(d.read_at) AS oldest_document,
    max(d.read_at) AS newest_document,
    any_value(s.read_at) AS last_change, -- of the source, or of why it cannot be read
    any_value(i.level_at) AS index_level_at, -- the index had all of the corpus then
    any_value(i.generation) AS generation,
    coalesce(any_value(s.error IS NULL AND s.read_at > i.level_at), true) AS is_behind -- changed since; a run of chunk_index is due
FROM bib_sources AS s
LEFT JOIN bib_docs AS d USING (source)
LEFT JOIN bib_index AS i ON true
GROUP BY s.source
ORDER BY s.source
