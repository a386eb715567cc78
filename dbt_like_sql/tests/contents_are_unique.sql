-- A content is there once.
-- checks: unique_chunks
SELECT content_id, count(*) AS times
FROM unique_chunks
GROUP BY content_id
HAVING times > 1
