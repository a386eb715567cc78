-- A question of the log is loaded once.
-- checks: oraculo_queries
SELECT query_id, count(*) AS times
FROM oraculo_queries
GROUP BY query_id
HAVING times > 1
