"""The circuits: which schedule refreshes what, one row a circuit. They replace the crons.

This is the table alone, and imports nothing heavy; `schedules` makes jobs and schedules of it. A circuit
without assets is not built yet: it is listed as such, and runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from bib_orchestration.biblioteca.settings import Settings, SettingsError, Source

CORPUS = ("documents", "chunks", "unique_chunks", "chunk_index")
# Assets that can be told to read and verify all, whatever is stored.
REFRESHED = ("documents", "chunks", "chunk_index")
EVALUATION = ("oraculo_queries", "golden_set", "retrieval_ab")
# Types of source that have a circuit of their own; `chunks` takes all others, so that none is left out.
OWN_CIRCUIT = ("wiki", "session", "method")


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit.

    name: of its schedule; its job is called `refresh_` and this.
    cron: when, in the schedules' time zone.
    refreshes: what, for people.
    assets: what it materialises; () while the circuit is not built.
    source_types: of the sources it reads; () for all that have no circuit of their own.
    full: whether stored fingerprints are ignored: all is read and verified, whether it changed or not.
    """

    name: str
    cron: str
    refreshes: str
    assets: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    full: bool = False

    @property
    def built(self) -> bool:
        return bool(self.assets)


CIRCUITS = (
    Circuit("python_ast", "*/10 * * * *", "Python nodes and edges of the product repo"),
    Circuit("openapi", "20 * * * *", "endpoint nodes of the product repo"),
    Circuit("product_docs", "20 * * * *", "documents of the product repo", ("documents", "chunks")),
    Circuit("communities", "10 4 * * *", "clusters of the graph"),
    Circuit("typescript_ast", "40 4 * * 1,4", "TypeScript nodes and edges of the workspace repo"),
    Circuit("session_documents", "0 5 * * *", "briefings of sessions", CORPUS, ("session",)),
    Circuit("method_documents", "10 5 * * 1,4", "the method's documents", CORPUS, ("method",)),
    Circuit("chunks", "30 3 * * *", "embeddings of the product's docs", CORPUS),
    Circuit("wiki", "0 4 * * 1-6", "pages and embeddings of the wiki", CORPUS, ("wiki",)),
    Circuit("wiki_full", "0 4 * * 0", "the whole wiki, read and verified", CORPUS, ("wiki",), full=True),
    Circuit("evaluation", "0 6 * * *", "the query log, yesterday's golden set and A/B run", EVALUATION),
    Circuit("wiki_lint", "20 5 * * *", "wiki health, and reclaim of stale pages"),
    Circuit("curator", "30 5 * * 1,4", "wiki health, by a language model"),
    Circuit("utility", "40 5 * * 1,3,5", "which pages get used"),
    Circuit("drift", "50 5 * * *", "pages that no longer match their sources"),
    Circuit("ingest", "*/15 * * * *", "pages to create or update after a merge"),
    Circuit("site", "*/15 * * * *", "the static site of the wiki"),
    Circuit("heartbeat", "*/30 * * * *", "a dead-man's switch over all of the above"),
)


def ordered_sources(settings: Settings) -> list[Source]:
    """Sources so that those of one circuit are neighbours, and one range of partitions: first those that
    have no circuit of their own, then by type."""
    return sorted(
        settings.sources,
        key=lambda source: (source.source_type in OWN_CIRCUIT, source.source_type, source.name),
    )


def circuit_sources(circuit: Circuit, settings: Settings) -> list[Source]:
    """The sources that a circuit reads, in the order of their partitions.

    A circuit without types of its own takes all sources that have no circuit of their own.
    """
    if "documents" not in circuit.assets:
        return []
    return [
        source
        for source in ordered_sources(settings)
        if (
            source.source_type in circuit.source_types
            if circuit.source_types
            else source.source_type not in OWN_CIRCUIT
        )
    ]


def runs_anything(circuit: Circuit, settings: Settings) -> bool:
    """Whether a circuit is built and has something to read."""
    return circuit.built and ("documents" not in circuit.assets or bool(circuit_sources(circuit, settings)))


def cron_of(circuit: Circuit, settings: Settings) -> str:
    """When a circuit runs: as bib.toml says, or else as the table does."""
    return settings.schedules.cron.get(circuit.name, circuit.cron)


def check_names(settings: Settings) -> None:
    """Raise SettingsError when bib.toml sets the time of a circuit that does not exist."""
    unknown = set(settings.schedules.cron) - {circuit.name for circuit in CIRCUITS}
    if unknown:
        raise SettingsError(
            f"{settings.config}: schedules.cron.{min(unknown)}: no such circuit; "
            f"there are: {', '.join(circuit.name for circuit in CIRCUITS)}"
        )
