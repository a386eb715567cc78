-- Questions asked by day, in the schedules' time zone: how many, how many different ones, how many were
-- answered (empty where the log does not say), and how long answers took.
SELECT
    (ts AT TIME ZONE $timezone)::DATE AS day,
    count(*) AS questions,
    count(DISTINCT question) AS different_questions,
    count(*) FILTER (answered) AS answered,
    count(*) FILTER (NOT answered) AS unanswered,
    round(100 * avg(answered::INTEGER), 1) AS answered_pct, -- of those that say
    median(latency_ms) AS median_latency_ms,
    quantile_cont(latency_ms, 0.95) AS p95_latency_ms, -- 95th percentile
    sum(tokens)::BIGINT AS tokens
FROM oraculo_queries
WHERE question IS NOT NULL AND ts IS NOT NULL
GROUP BY ALL
ORDER BY day
