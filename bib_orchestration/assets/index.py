"""The vector index: one row a distinct content; only new contents are embedded."""

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.assets.corpus import RefreshConfig
from bib_orchestration.biblioteca.index.model_cards import EMBEDDED_TEXT_VERSION
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.displays import column_lineage, column_schema, lineage_from
from bib_orchestration.resources import LibraryResource

# The columns of its table that people ask for, and what of `unique_chunks` they are made of.
_COLUMNS = {
    "content_id": "string",
    "text_hash": "string",
    "text": "string",
    "title": "string",
    "heading_path": "string",
    "tokens": "int32",
    "language": "string",
    **dict.fromkeys(("sources", "source_types", "apps", "slugs", "paths"), "list<string>"),
    "vector": "fixed_size_list<float>",
    "sentence_starts": "list<int32>",
    "sentence_ends": "list<int32>",
    "sentence_vectors": "large_binary (float16)",
}
_NOTES = {
    "vector": "Of title, heading path and text; of length 1.",
    "sentence_vectors": "A row of float16 a sentence.",
    "sentence_starts": "Where each sentence begins in the text.",
    "sentence_ends": "Where each sentence ends in the text.",
    "sources": "Of every occurrence, as all lists here: place n of each is the same one.",
}
_EMBEDDED = ("title", "heading_path", "text")
_LINEAGE = lineage_from(
    "unique_chunks",
    {
        **{name: (name,) for name in _COLUMNS if not name.startswith(("vector", "sentence", "language"))},
        "language": ("languages",),
        "vector": _EMBEDDED,
        **{name: ("text",) for name in _COLUMNS if name.startswith("sentence")},
    },
)


def index_assets() -> list[dg.AssetsDefinition]:
    """`chunk_index`."""

    @dg.asset(
        deps=["unique_chunks"],
        # Without one, a range of partitions cannot be asked for beside it.
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="index",
        kinds={"lancedb", "python"},
        owners=OWNERS,
        code_version=EMBEDDED_TEXT_VERSION,
        description=(
            "Vectors of each distinct content and of its sentences, in LanceDB. A run embeds only contents that "
            "this model never embedded; one that fails leaves the index serving as it was."
        ),
        metadata={"dagster/column_schema": column_schema(_COLUMNS, _NOTES, _LINEAGE)},
    )
    def chunk_index(
        context: dg.AssetExecutionContext, config: RefreshConfig, library: LibraryResource
    ) -> dg.MaterializeResult:
        # numpy is not for whoever only loads the definitions.
        from bib_orchestration.biblioteca.indexing import refresh_index

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
                "dagster/column_lineage": column_lineage(_LINEAGE),
            }
        )

    return [chunk_index]
