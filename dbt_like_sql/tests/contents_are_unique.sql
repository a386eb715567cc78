-- A content is there once.
SELECT content_id, count(*) AS times
FROM unique_chunks
GROUP BY content_id
HAVING times > 1
