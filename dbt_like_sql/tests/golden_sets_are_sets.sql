-- A day's golden set has a rank once, and a question once.
-- checks: golden_set
SELECT
    day, rank, question, count(*) OVER same_rank AS of_this_rank, count(*) OVER same_question AS of_this_question
FROM golden_set
WINDOW same_rank AS (PARTITION BY day, rank), same_question AS (PARTITION BY day, question)
QUALIFY of_this_rank > 1 OR of_this_question > 1
