-- How each source stands: its documents, what was odd about them, what could not be read, and the chunks that
-- were cut of them. A source that could not be read the last time says why, and keeps the rows that it had.
WITH documents AS (
    SELECT
        source,
        any_value(source_type) AS source_type,
        count(*) AS documents,
        sum(tokens)::BIGINT AS tokens,
        count(*) FILTER (stale) AS stale_documents,
        count(*) FILTER (len(warnings) > 0) AS odd_documents,
        max(read_at) AS last_change
    FROM bib_docs
    GROUP BY source
),
chunks AS (
    SELECT
        source,
        count(*) AS chunks,
        count(DISTINCT content_id) AS contents,
        count(DISTINCT doc_id) AS documents_with_chunks,
        median(tokens) AS median_chunk_tokens,
        max(tokens) AS longest_chunk_tokens
    FROM bib_chunks
    GROUP BY source
)
SELECT
    s.source,
    d.source_type,
    coalesce(d.documents, 0) AS documents, -- that it has now
    coalesce(d.tokens, 0) AS tokens, -- of its documents, characters / 4
    coalesce(c.chunks, 0) AS chunks, -- occurrences
    coalesce(c.contents, 0) AS contents, -- distinct ones
    c.median_chunk_tokens,
    c.longest_chunk_tokens,
    coalesce(d.documents, 0) - coalesce(c.documents_with_chunks, 0) AS documents_without_chunks, -- empty, or nothing but front matter
    coalesce(d.odd_documents, 0) AS odd_documents, -- read, with a warning
    coalesce(d.stale_documents, 0) AS stale_documents, -- could not be read the last time; kept as they were
    coalesce(json_array_length(s.problems), 0)::BIGINT AS skipped_files, -- gave no document; bib_sources.problems says why
    d.last_change, -- when a document of it was last read anew
    s.commit,
    s.error -- why the last reading failed
FROM bib_sources AS s
LEFT JOIN documents AS d USING (source)
LEFT JOIN chunks AS c USING (source)
ORDER BY s.source
