-- One row a distinct content, with all its occurrences as lists that belong together: place n of each list
-- speaks of the same occurrence. They are ordered by source, path and place in the document, so the first
-- is the one that is shown.
WITH occurrences AS (
    SELECT
        c.content_id,
        c.text_hash,
        c.title,
        c.heading_path,
        c.body,
        c.tokens,
        d.language,
        c.source,
        d.source_type,
        d.app,
        d.slug,
        c.path,
        min(c.ordinal) AS ordinal
    FROM bib_chunks AS c
    JOIN bib_docs AS d USING (doc_id)
    GROUP BY ALL
)
SELECT
    content_id, -- hash of title, heading path and body
    first(text_hash ORDER BY source, path) AS text_hash, -- of the body alone
    first(title ORDER BY source, path) AS title,
    first(heading_path ORDER BY source, path) AS heading_path,
    first(body ORDER BY source, path) AS text,
    first(tokens ORDER BY source, path) AS tokens,
    list(source ORDER BY source, path) AS sources, -- of every occurrence; place n of each list is the same one
    list(source_type ORDER BY source, path) AS source_types,
    list(app ORDER BY source, path) AS apps,
    list(slug ORDER BY source, path) AS slugs,
    list(path ORDER BY source, path) AS paths,
    list(language ORDER BY source, path) AS languages
FROM occurrences
GROUP BY content_id
ORDER BY content_id
