"""`bib_index`: what LanceDB says of the live generation, where SQL can read it."""

from __future__ import annotations

from datetime import datetime

from bib_orchestration.biblioteca.index.generations import Generation
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows


def note_level(warehouse: Warehouse, generation: Generation, at: datetime) -> bool:
    """Note that `generation` is live and level with the corpus as it was `at`; whether that was news.

    Nothing is written while neither the index nor any source has changed since it was noted last.
    """
    row = {
        "generation": generation.table,
        "model": generation.model,
        "revision": generation.revision,
        "dimension": generation.dimension,
        "contents": generation.contents,
        "corpus": generation.corpus,
    }
    with warehouse.lock():
        with warehouse.read() as connection:
            stored = connection.execute(
                f"SELECT {', '.join(row)} FROM bib_index"
                " WHERE level_at >= ALL (SELECT read_at FROM bib_sources WHERE read_at IS NOT NULL)"
            ).fetchall()
        if stored == [tuple(row.values())]:
            return False
        with warehouse.transaction() as connection:
            connection.execute("DELETE FROM bib_index")
            insert_rows(connection, "bib_index", [{**row, "level_at": at}])
    return True
