"""What a person sees in Dagster's UI: assets that can be materialised by a click, the plots, the lineage.

The same pages, as they are looked at here, are the pictures in README.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .conftest import RUN_LIMIT_S, Ui

DAY = "2026-10-31"


def open_page(page: Any, address: str, *texts: str) -> None:
    """Open a page of the UI and wait until it shows all of `texts`."""
    page.goto(address)
    for text in texts:
        page.get_by_text(text).first.wait_for()
    page.wait_for_load_state("networkidle")


def take(page: Any, pictures: Path, name: str) -> None:
    page.wait_for_timeout(1000)
    path = pictures / f"{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size > 10_000


def test_the_graph_shows_what_an_asset_is_made_of(page: Any, pictures: Path) -> None:
    open_page(page, "/assets/ab_history?view=lineage&lineageScope=upstream&lineageDepth=9", "ab_history")
    for asset in ("documents", "chunks", "unique_chunks", "chunk_index", "golden_set", "retrieval_ab"):
        page.get_by_text(asset, exact=True).first.wait_for()
    take(page, pictures, "assets")


def test_an_asset_is_materialised_by_a_click(page: Any, ui: Ui) -> None:
    before = ui.materialisations("questions_by_day")
    open_page(page, "/assets/questions_by_day", "Questions asked by day")
    page.get_by_role("button", name="Materialize").first.click()
    give_up = time.monotonic() + RUN_LIMIT_S
    while ui.materialisations("questions_by_day") == before:
        assert time.monotonic() < give_up, "the run that was launched made nothing"
        time.sleep(0.5)


def test_a_run_of_the_ab_evaluation_shows_its_plot(page: Any, pictures: Path) -> None:
    open_page(page, f"/assets/retrieval_ab?view=partitions&partition={DAY}", "tokens_per_question", "verdict")
    assert page.get_by_text("cannot conclude").count()
    take(page, pictures, "retrieval_ab")
    row = page.locator("tr", has_text="tokens_per_question")
    row.get_by_text("Show Markdown").click()
    plot = page.locator("img[alt^='Tokens per question']")
    plot.wait_for()
    assert plot.evaluate("image => image.naturalWidth") > 300
    take(page, pictures, "ab_plot")
    page.keyboard.press("Escape")


def test_a_column_tells_where_it_comes_from(page: Any, pictures: Path) -> None:
    open_page(page, "/assets/unique_chunks", "Columns", "← chunks.content_id")
    # A model's page has its query, its checks and its first rows too.
    for text in ("GROUP BY content_id", "first_rows", "Freshness policy"):
        page.get_by_text(text).first.wait_for()
    page.get_by_text("Columns", exact=True).first.evaluate("heading => heading.scrollIntoView()")
    take(page, pictures, "columns")


def test_nothing_on_the_pages_of_assets_is_an_error(page: Any, ui: Ui) -> None:
    names = [node["assetKey"]["path"][0] for node in ui.query("{assetNodes {assetKey {path}}}")["assetNodes"]]
    assert len(names) >= 12
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    for name in names:
        open_page(page, f"/assets/{name}", "Definition", name)
        assert not page.get_by_text("An unexpected error").count(), name
    assert not failures
