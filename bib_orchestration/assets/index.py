"""The vector index: one row a distinct content; only new contents are embedded."""

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.assets.corpus import RefreshConfig
from bib_orchestration.biblioteca.index.model_cards import EMBEDDED_TEXT_VERSION
from bib_orchestration.biblioteca.indexing import refresh_index
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.resources import LibraryResource


@dg.asset(
    deps=["unique_chunks"],
    group_name="index",
    kinds={"lancedb", "python"},
    owners=OWNERS,
    code_version=EMBEDDED_TEXT_VERSION,
    description=(
        "Vectors of each distinct content and of its sentences, in LanceDB. A run embeds only contents that "
        "this model never embedded; one that fails leaves the index serving as it was."
    ),
)
def chunk_index(
    context: dg.AssetExecutionContext, config: RefreshConfig, library: LibraryResource
) -> dg.MaterializeResult:
    report = refresh_index(
        library,
        full=config.full,
        progress=ProgressLog("embedding", "contents", context.log.info),
    )
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": report.contents,
            "generation": report.generation or "none yet",
            "added": report.added,
            "updated": report.updated,
            "deleted": report.deleted,
            "embedded": report.embedded,
            "texts_embedded": report.texts,
            "went_live": report.went_live,
        }
    )
