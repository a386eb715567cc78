-- The golden set of a day: the newest unique questions up to its end, longer than 8 characters without the
-- white space around them. A question that was asked again counts where it was asked last.
-- partitions: day
WITH asked AS (
    SELECT
        query_id,
        ts,
        -- All that Unicode calls white space.
        regexp_replace(
            nfc_normalize(question), '^[\x{9}-\x{d}\x{85}\p{Z}]+|[\x{9}-\x{d}\x{85}\p{Z}]+$', '', 'g'
        ) AS question
    FROM oraculo_queries
    WHERE ts < $day_end AND question IS NOT NULL
),
unique_questions AS (
    SELECT *
    FROM asked
    WHERE length(question) > 8
    QUALIFY row_number() OVER (PARTITION BY question ORDER BY ts DESC, query_id DESC) = 1
),
newest AS (
    SELECT row_number() OVER (ORDER BY ts DESC, query_id DESC) AS rank, *
    FROM unique_questions
    QUALIFY rank <= $questions
)
SELECT
    $day::DATE AS day,
    rank, -- 1 is the newest
    query_id,
    ts,
    question,
    -- of the questions in order; as JSON, so that one question of two lines is not two questions
    sha256(to_json(list(question ORDER BY rank) OVER ())::VARCHAR)[:16] AS golden_hash
FROM newest
ORDER BY rank
