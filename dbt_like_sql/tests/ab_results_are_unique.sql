-- A run has a question under a variant once.
-- checks: ab_results
SELECT run_id, question, variant, count(*) AS times
FROM ab_results
GROUP BY run_id, question, variant
HAVING times > 1
