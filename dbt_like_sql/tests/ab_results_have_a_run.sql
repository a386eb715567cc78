-- Every result is of a run that is listed, and a run has results for each of its questions and variants.
-- checks: ab_results
SELECT
    coalesce(r.run_id, a.run_id) AS run_id, a.questions * len(a.variants) AS expected, r.results AS found
FROM (SELECT run_id, count(*) AS results FROM ab_results GROUP BY run_id) AS r
FULL JOIN ab_runs AS a USING (run_id)
WHERE a.run_id IS NULL OR coalesce(r.results, 0) <> a.questions * len(a.variants)
