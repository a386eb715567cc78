-- Every A/B run, newest first, beside the run before it of the same day and settings: what it saved, what the
-- gate said, and whether its questions or the corpus had changed in between. An average that was not measured
-- is empty.
SELECT
    run_id,
    ran_at,
    day, -- of the golden set; empty for questions of one's own
    questions,
    ranking,
    top_k,
    coalesce(trim_mode, 'cosine') AS trim_mode, -- the only one that there was at first
    trim_threshold, -- of mode cosine
    trim_min_sentences,
    trim_window,
    model,
    avg_tokens_baseline,
    avg_tokens_trim,
    token_reduction_pct, -- of the averages
    avg_overlap_vs_baseline, -- 1 by construction where no chunk is dropped
    verdict,
    token_reduction_pct - lag(token_reduction_pct) OVER before AS reduction_change, -- in points, to the run before
    golden_hash IS DISTINCT FROM lag(golden_hash) OVER before AS other_questions, -- than the run before
    corpus IS DISTINCT FROM lag(corpus) OVER before AS other_corpus -- than the run before
FROM ab_runs
WINDOW before AS (
    PARTITION BY day, variants, ranking, top_k, coalesce(trim_mode, 'cosine'), trim_threshold,
        trim_min_sentences, trim_window, source_type, app
    ORDER BY ran_at, run_id
)
ORDER BY ran_at DESC, run_id DESC
