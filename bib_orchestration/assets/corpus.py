"""Documents and chunks, partitioned by source.

Each source of a range commits by itself and reports its own figures. One that cannot be read keeps its rows
and stops nothing; the check `sources_were_read` then makes the run red.
"""

from typing import Any

import dagster as dg

from bib_orchestration import plots
from bib_orchestration.assets import OWNERS
from bib_orchestration.biblioteca.corpus.markdown import CHUNKER_VERSION
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.corpus_tables import (
    ChunkReport,
    SourceReport,
    refresh_chunks,
    refresh_documents,
    remove_unknown_sources,
)
from bib_orchestration.displays import column_lineage, lineage_from, table, table_schema
from bib_orchestration.partitions import keys_of, source_partitions
from bib_orchestration.resources import LibraryResource

# Which columns of `bib_docs` those of `bib_chunks` are made of.
_CUT_OF_TEXT = "text_hash ordinal heading_path text body start end line_start line_end tokens".split()
_CHUNK_LINEAGE = lineage_from(
    "documents",
    {
        "chunk_id": ("doc_id",),
        "doc_id": ("doc_id",),
        "source": ("source",),
        "path": ("path",),
        "title": ("own_title", "text"),
        "content_id": ("own_title", "text"),
        **dict.fromkeys(_CUT_OF_TEXT, ("text",)),
    },
)


class RefreshConfig(dg.Config):
    """`full` ignores what is stored about a document or an index: all is read and verified."""

    full: bool = False


def corpus_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """`documents` and `chunks`."""
    partitions = source_partitions(settings)

    @dg.asset(
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="corpus",
        kinds={"markdown", "duckdb"},
        owners=OWNERS,
        code_version="1",
        description="The documents that each source has now, decoded, with their front matter (`bib_docs`).",
        metadata={"dagster/column_schema": table_schema("bib_docs"), "dagster/table_name": "bib_docs"},
    )
    def documents(
        context: dg.AssetExecutionContext, config: RefreshConfig, library: LibraryResource
    ) -> dg.MaterializeResult:
        warehouse = library.warehouse
        for name in keys_of(context):
            report = refresh_documents(
                warehouse,
                settings.source(name),
                settings.checkouts,
                run_id=context.run.run_id,
                full=config.full,
            )
            context.add_asset_metadata(_documents_metadata(report), partition_key=name)
            if report.error:
                context.log.error(report.error)
        removed = remove_unknown_sources(warehouse, [source.name for source in settings.sources])
        warehouse.publish()
        return dg.MaterializeResult(metadata={"sources_removed": removed} if removed else {})

    @dg.asset(
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        deps=[documents],
        group_name="corpus",
        kinds={"markdown", "duckdb"},
        owners=OWNERS,
        code_version=CHUNKER_VERSION,
        description="Occurrences of chunks in each source's documents, with exact offsets (`bib_chunks`).",
        metadata={
            "dagster/column_schema": table_schema("bib_chunks", _CHUNK_LINEAGE),
            "dagster/table_name": "bib_chunks",
        },
    )
    def chunks(
        context: dg.AssetExecutionContext, config: RefreshConfig, library: LibraryResource
    ) -> dg.MaterializeResult:
        warehouse = library.warehouse
        for name in keys_of(context):
            report = refresh_chunks(warehouse, name, settings.chunks, full=config.full)
            context.add_asset_metadata(_chunks_metadata(library, report), partition_key=name)
        warehouse.publish()
        return dg.MaterializeResult()

    return [documents, chunks]


def _documents_metadata(report: SourceReport) -> dict[str, Any]:
    skipped = [{"path": problem.path, "reason": problem.reason} for problem in report.problems]
    odd = [{"path": path, "reason": reason} for path, reason in report.warnings]
    changed = [
        {"what": what, "path": path}
        for what in ("added", "changed", "moved", "deleted")
        for path in getattr(report, what)
    ]
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": report.documents,
        "added": len(report.added),
        "changed": len(report.changed),
        "moved": len(report.moved),
        "deleted": len(report.deleted),
        "skipped": len(skipped),
    }
    if report.commit:
        metadata["commit"] = report.commit
    if report.error:
        metadata["error"] = report.error
    if changed:
        metadata["changes"] = table(changed, ["what", "path"])
    if skipped:
        metadata["skipped_files"] = table(skipped, ["path", "reason"])
    if odd:
        metadata["odd_files"] = table(odd, ["path", "reason"])
    return metadata


def _chunks_metadata(library: Library, report: ChunkReport) -> dict[str, Any]:
    with library.warehouse.read() as connection:
        sizes = connection.execute(
            "SELECT content_id, tokens FROM bib_chunks WHERE source = $source", {"source": report.source}
        ).fetchall()
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": report.chunks,
        "documents_cut": report.documents_cut,
        "added": report.added,
        "removed": report.removed,
        "distinct_contents": len({content for content, _ in sizes}),
        "tokens": sum(tokens for _, tokens in sizes),
        "dagster/column_lineage": column_lineage(_CHUNK_LINEAGE),
    }
    if sizes:
        metadata["chunk_lengths"] = plots.histogram(
            [tokens for _, tokens in sizes],
            title=f"Chunk lengths of {report.source}",
            of="chunks",
            unit="tokens (characters / 4)",
        )
    return metadata
