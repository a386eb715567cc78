"""What schema.py promises: the columns of the contract, under their names, without keys or indexes."""

from __future__ import annotations

from bib_orchestration.biblioteca.warehouse.schema import NOTES, TABLES

# Users and stored data depend on these names. More may be added; none may go.
CONTRACT = {
    "bib_docs": "doc_id source path kind source_type app language title slug front_matter content_hash bytes"
    " tokens commit stale read_at",
    "bib_chunks": "chunk_id content_id text_hash doc_id source path ordinal heading_path text start end"
    " line_start line_end tokens",
    "oraculo_queries": "query_id ts question mode latency_ms tokens content_ids paths generation answered",
    "ab_results": "run_id day question variant chunk_ids top_score tokens tokens_before overlap_vs_baseline"
    " answer",
}
OF_OUR_OWN = {
    "bib_docs": "own_title warnings text",
    "bib_chunks": "title body",
    "bib_chunked_docs": "doc_id source content_hash chunker",
    "bib_sources": "source commit documents problems error run_id read_at",
    "query_log_files": "file bytes",
    "bib_index": "generation model revision dimension contents corpus level_at",
    "ab_runs": "run_id ran_at day golden_hash questions variants top_k trim_mode trim_threshold"
    " trim_min_sentences trim_window ranking source_type app generation model corpus avg_tokens_baseline"
    " avg_tokens_trim token_reduction_pct"
    " avg_overlap_vs_baseline verdict",
    "ab_results": "rank",
}


def test_the_columns_of_the_contract_are_there_under_their_names():
    for table, columns in CONTRACT.items():
        assert not set(columns.split()) - TABLES[table].keys(), table


def test_no_column_comes_or_goes_unseen():
    assert {table: list(columns) for table, columns in TABLES.items()} == {
        table: f"{CONTRACT.get(table, '')} {OF_OUR_OWN.get(table, '')}".split() for table in TABLES
    }


def test_times_have_a_zone():
    for table, columns in TABLES.items():
        for name, kind in columns.items():
            assert kind not in ("TIMESTAMP", "DATETIME"), f"{table}.{name}"
            if name == "ts" or name.endswith("_at"):
                assert kind == "TIMESTAMPTZ", f"{table}.{name}"


def test_the_tables_are_made_so_without_keys_or_indexes(warehouse):
    with warehouse.read() as connection:
        made = {
            table: {row[0]: row[1] for row in connection.sql(f"DESCRIBE {table}").fetchall()}
            for table in TABLES
        }
        constraints = connection.sql("FROM duckdb_constraints()").fetchall()
        indexes = connection.sql("FROM duckdb_indexes()").fetchall()
    for columns in made.values():
        for name, kind in columns.items():
            columns[name] = kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")

    assert made == TABLES
    assert constraints == indexes == []


def test_notes_are_of_columns_that_there_are():
    assert NOTES.keys() == TABLES.keys()
    for table, notes in NOTES.items():
        assert not notes.keys() - TABLES[table].keys(), table
