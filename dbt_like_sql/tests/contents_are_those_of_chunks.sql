-- Every content of a chunk is there, and no other.
-- checks: unique_chunks
SELECT coalesce(u.content_id, c.content_id) AS content_id, u.content_id IS NULL AS is_missing
FROM unique_chunks AS u
FULL JOIN (SELECT DISTINCT content_id FROM bib_chunks) AS c USING (content_id)
WHERE u.content_id IS NULL OR c.content_id IS NULL
