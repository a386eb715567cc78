-- What deduplication saves, by source and for all sources together: a content that occurs three times is
-- embedded once, and a search shows a text once under whatever headings it stands.
WITH scoped AS (
    SELECT source AS scope, content_id, text_hash, tokens FROM bib_chunks
    UNION ALL
    SELECT '(all)' AS scope, content_id, text_hash, tokens FROM bib_chunks
),
contents AS (
    SELECT
        scope,
        content_id,
        min(text_hash) AS text_hash,
        count(*) AS occurrences,
        sum(tokens) AS tokens,
        max(tokens) AS tokens_embedded
    FROM scoped
    GROUP BY scope, content_id
)
SELECT
    scope AS source, -- or (all)
    sum(occurrences)::BIGINT AS occurrences,
    count(*) AS contents, -- embedded
    count(DISTINCT text_hash) AS texts, -- that a search can show
    (sum(occurrences) - count(*))::BIGINT AS embeddings_saved, -- occurrences that cost none
    sum(tokens - tokens_embedded)::BIGINT AS tokens_saved, -- not embedded again
    round(100 * (1 - count(*) / sum(occurrences)), 1) AS saved_pct -- of occurrences
FROM contents
GROUP BY scope
ORDER BY scope
