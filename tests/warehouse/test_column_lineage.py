"""What column_lineage.py promises: where a column comes from, or that this is unknown; never a guess."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.biblioteca.warehouse.column_lineage import follow_columns
from bib_orchestration.biblioteca.warehouse.schema import TABLES
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel, read_models
from bib_orchestration.biblioteca.warehouse.sql_tables import materialise, table_columns

TABLES_READ = {
    "pages": {"id": "BIGINT", "path": "VARCHAR", "text": "VARCHAR", "tags": "VARCHAR[]", "size": "BIGINT"},
    "links": {"page": "BIGINT", "target": "VARCHAR"},
}


def model(sql: str) -> SqlModel:
    return SqlModel("m", sql, Path("/models/m.sql"))


def described(sql: str) -> list[str]:
    """The columns of a query, by DuckDB itself."""
    import duckdb

    with duckdb.connect() as connection:
        for table, columns in TABLES_READ.items():
            listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {table} ({listed})")
        connection.execute(f"CREATE TABLE m AS {sql}")
        return [row[0] for row in connection.sql("DESCRIBE m").fetchall()]


def followed(sql: str) -> dict[str, str]:
    """Each column of a query with its origins, or with why they are unknown."""
    found = follow_columns(model(sql), described(sql), TABLES_READ)
    return {
        name: f"? {lineage.unknown}" if lineage.unknown else " ".join(map(str, lineage.origins))
        for name, lineage in found.items()
    }


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, path AS p FROM pages", {"id": "pages.id", "p": "pages.path"}),
        ("SELECT 1 AS one, count(*) AS n FROM pages", {"one": "", "n": ""}),
        ("SELECT id AS text, text AS id FROM pages", {"text": "pages.id", "id": "pages.text"}),
        ("FROM links", {"page": "links.page", "target": "links.target"}),
        ("SELECT path || target AS x FROM pages JOIN links ON page = id", {"x": "links.target pages.path"}),
        ("SELECT p.* EXCLUDE (text, tags, size) FROM pages p", {"id": "pages.id", "path": "pages.path"}),
        ("SELECT * REPLACE (page + 1 AS page) FROM links", {"page": "links.page", "target": "links.target"}),
        (
            "WITH a AS (SELECT id, upper(path) AS p FROM pages), b AS (SELECT p || id AS q FROM a) FROM b",
            {"q": "pages.id pages.path"},
        ),
        # What only filters, joins or groups is not what a value is made of.
        ("SELECT path FROM pages WHERE id IN (SELECT page FROM links)", {"path": "pages.path"}),
        ("SELECT p.path FROM pages p SEMI JOIN links l ON l.page = p.id", {"path": "pages.path"}),
        ("SELECT path, max(size) AS m FROM pages GROUP BY ALL", {"path": "pages.path", "m": "pages.size"}),
        (
            "SELECT (SELECT max(target) FROM links WHERE page = pages.id) AS t FROM pages",
            {"t": "links.target"},
        ),
        ("SELECT unnest(tags) AS tag FROM pages", {"tag": "pages.tags"}),
        ("SELECT id FROM pages UNION ALL SELECT page FROM links", {"id": "links.page pages.id"}),
        (
            "SELECT row_number() OVER (PARTITION BY path ORDER BY size) AS n FROM pages",
            {"n": "pages.path pages.size"},
        ),
        (
            "SELECT row_number() OVER v AS n, lag(id) OVER (w ORDER BY id) AS l FROM pages"
            " WINDOW w AS (PARTITION BY path), V AS (w ORDER BY size)",
            {"n": "pages.path pages.size", "l": "pages.id pages.path"},
        ),
        # A name is a window's within its own query.
        (
            "SELECT n, rank() OVER w AS r FROM (SELECT id, count(*) OVER w AS n FROM pages WINDOW w AS (ORDER BY size))"
            " WINDOW w AS (ORDER BY id)",
            {"n": "pages.size", "r": "pages.id"},
        ),
        ("SELECT id, n FROM pages, range(3) AS r(n)", {"id": "pages.id", "n": "? a table function"}),
    ],
)
def test_a_column_is_followed_to_the_tables(sql: str, expected: dict[str, str]) -> None:
    assert followed(sql) == expected


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        # sqlglot pairs the columns of both sides by their place, and names the wrong ones.
        ("SELECT id, path FROM pages UNION ALL BY NAME SELECT path, id FROM pages", {"id", "path"}),
        ("WITH RECURSIVE r AS (SELECT id FROM pages UNION SELECT id + 1 FROM r WHERE id < 3) FROM r", {"id"}),
        ("FROM pages SELECT COLUMNS('^i')", {"id"}),
        ("SELECT id, text.upper() AS u FROM pages", {"u"}),
        ("WITH a AS (SELECT id, text.upper() AS u FROM pages) SELECT id, u || '!' AS v FROM a", {"v"}),
        ("SELECT id, [tag || path FOR tag IN tags] AS t FROM pages", {"t"}),
        ("SELECT id, list_transform(tags, lambda tag: tag || path) AS t FROM pages", {"t"}),
        (
            "SELECT id, len(t) AS n FROM (SELECT id, list_filter(tags, lambda tag: tag <> path) AS t FROM pages)",
            {"n"},
        ),
        ("SELECT id, (SELECT max(text.upper()) FROM pages) AS m FROM pages", {"m"}),
        # It takes what they are joined by for what they are made of.
        ("SELECT id, t FROM pages, LATERAL (SELECT target AS t FROM links WHERE page = id)", {"id", "t"}),
        ("SELECT id, t FROM pages, (SELECT pages.path AS t)", {"id", "t"}),
        ("SELECT id, (SELECT any_value(pages.path || target) FROM links) AS t FROM pages", {"t"}),
        ("SELECT id, (SELECT max(pages.size + page) FROM links) AS t FROM pages", {"t"}),
        # It takes the new names for the table's own.
        ("FROM links AS l(target, page)", {"target", "page"}),
        ("SELECT id, pages AS r, to_json(pages) AS j FROM pages", {"r", "j"}),
        ("SELECT #1 AS x, id FROM pages", {"x"}),
        ("(SELECT id FROM pages)", {"id"}),
        # DuckDB gives the second `page` the name that the target was to have.
        ("SELECT page, page, target AS page_1 FROM links", {"page_1", "page_1_1"}),
        ("SELECT page_1 FROM (SELECT page, page FROM links)", {"page_1"}),
        ("PIVOT (SELECT path, size FROM pages) ON path IN ('a', 'b') USING sum(size)", {"a", "b"}),
    ],
)
def test_what_sqlglot_cannot_follow_is_unknown(sql: str, unknown: set[str]) -> None:
    assert {name for name, said in followed(sql).items() if said.startswith("? ")} == unknown


def test_an_origin_has_the_name_that_the_table_gives_it() -> None:
    tables = {"t": {"a.b": "BIGINT", "b": "BIGINT", 'q"x': "BIGINT", "Año": "BIGINT"}}
    found = follow_columns(
        model('SELECT "A.b" AS one, b AS two, "q""x" AS three, "año" AS four FROM t'),
        ["one", "two", "three", "four"],
        tables,
    )
    assert [lineage.origins[0].column for lineage in found.values()] == ["a.b", "b", 'q"x', "Año"]


def test_hundreds_of_columns_cost_no_minute() -> None:
    """sqlglot copied the query for each column: 23 s for 500."""
    started = time.process_time()
    found = followed("SELECT " + ", ".join(f"id + {n} AS c{n}" for n in range(500)) + " FROM pages")
    assert len(found) == 500
    assert set(found.values()) == {"pages.id"}
    assert time.process_time() - started < 10


def test_a_table_whose_columns_are_not_known_leaves_all_unknown() -> None:
    found = follow_columns(model("SELECT x FROM elsewhere"), ["x"], TABLES_READ)
    assert found["x"].unknown == "the columns of elsewhere are not known"
    assert not found["x"].origins


def test_every_column_of_this_projects_models_is_followed(warehouse) -> None:
    from datetime import date

    for each in read_models(MODELS_FOLDER).values():
        day = date(2026, 10, 1) if each.by_day else None
        made = materialise(warehouse, each, day=day, values={"questions": 15})
        with warehouse.read() as connection:
            tables = table_columns(connection)
        assert set(TABLES) <= set(tables)
        found = follow_columns(each, list(made.columns), tables)
        assert not {name: lineage.unknown for name, lineage in found.items() if lineage.unknown}, each.path
