"""`bib.toml` and the environment, read once into a frozen `Settings`.

All that a person can get wrong is checked here, and nowhere below: an error names the file, the key, and
what would be right. Beneath this module, types are trusted.

What does not belong here: the table of circuits (the upper floor's), and anything that opens a store.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

CONFIG_NAME = "bib.toml"
DEFAULT_INCLUDE = ("*.md", "*.mdx", "*.markdown")
# Never a document of the source itself, wherever they stand.
ALWAYS_EXCLUDED = (".git/", "node_modules/", ".venv/")
# What a folder of session notes holds beside its briefings.
SESSION_EXCLUDED = ("LOG.md", "reports/", "_archive/")
# ISO 639-1 codes for which PyStemmer has a stemmer, and its name there.
STEMMERS = {
    "ca": "catalan",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
}
TrimMode = Literal["cosine", "cosine-auto", "margin"]
TRIM_MODES: tuple[TrimMode, ...] = get_args(TrimMode)
# An address such as "md:name" or "s3://bucket", which no folder is put before.
_SCHEME = re.compile(r"[a-z0-9_+]{2,}:")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# Hours of rhythms that go round the clock: nothing is lost when the change of clocks skips or repeats one.
_RHYTHMS = (set(range(24)), set(range(0, 24, 2)))
# Days that our parser of cron lines takes and Dagster's does not: the last weekday, the last Friday.
_LAST_DAYS = re.compile(r"LW|\dL", re.IGNORECASE)
# What Pydantic says of a value of the wrong kind, in the words of TOML.
_KINDS = {"tuple_type": "a list is right", "dict_type": "a table is right", "model_type": "a table is right"}


class SettingsError(ValueError):
    """A setting is wrong; the message says in which file, under which key, and what would be right."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(_Frozen):
    """A place that documents come from.

    `kind` "folder" is read as it is on disk; "git" is read from the tree of the commit that `ref` names, so
    a pull in progress is never half read. With `url`, a bare clone is kept under BIB_HOME and `path` is a
    folder inside the repository; without it, `path` is a checkout on this machine, or a folder inside one.
    """

    name: str
    kind: Literal["folder", "git"] = "folder"
    path: Path | None = None
    url: str | None = None
    ref: str = "HEAD"
    fetch: bool = False
    include: tuple[str, ...] = DEFAULT_INCLUDE
    exclude: tuple[str, ...] = ()
    source_type: str = "docs"
    app: str = ""
    language: str = "es"

    @field_validator("name", "source_type")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is no name; use lower-case letters, digits, '-' and '_'")
        return value

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str) -> str:
        if value not in STEMMERS:
            raise ValueError(f"{value!r} is not among {', '.join(STEMMERS)}")
        return value

    @field_validator("include")
    @classmethod
    def _some_include(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError('an empty list reads nothing; name globs, such as ["*.md", "*.mdx"]')
        return value

    @model_validator(mode="after")
    def _place(self) -> Self:
        for key, value in (("path", self.path), ("url", self.url), ("ref", self.ref)):
            if "\0" in str(value):
                raise ValueError(f"`{key}` holds a NUL character, which no name can")
        if self.kind == "folder":
            if self.path is None:
                raise ValueError("a folder source needs `path`")
            for key, given in (
                ("url", self.url is not None),
                ("ref", self.ref != "HEAD"),
                ("fetch", self.fetch),
            ):
                if given:
                    raise ValueError(f'`{key}` is for sources of kind "git"')
        elif self.path is None and self.url is None:
            raise ValueError("a git source needs `path` (a checkout on this machine) or `url`")
        if self.url is not None and (not self.url.strip() or self.url.startswith("-") or "::" in self.url):
            raise ValueError(f"`url` {self.url!r} is not a git address")
        if not self.ref.strip() or self.ref.startswith("-"):
            raise ValueError(f"`ref` {self.ref!r} is not a branch, tag or commit")
        return self

    @property
    def excluded(self) -> tuple[str, ...]:
        """All globs to leave out: the user's, and those that the type of source brings."""
        session = SESSION_EXCLUDED if self.source_type == "session" else ()
        return (*ALWAYS_EXCLUDED, *session, *self.exclude)


class ModelSettings(_Frozen):
    """Which embedder makes the vectors. `name`: "use-multilingual", or a sentence-transformers id or folder."""

    name: str = "use-multilingual"
    revision: str | None = None
    device: str = "cpu"
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 32
    threads: Annotated[int, Field(ge=1, le=1024)] = 1


class ChunkSettings(_Frozen):
    """Sizes in tokens (characters / 4, rounded up)."""

    max_tokens: Annotated[int, Field(ge=40, le=8000)] = 400
    min_tokens: Annotated[int, Field(ge=0)] = 60

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_tokens * 2 > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must be at most half of max_tokens ({self.max_tokens})"
            )
        return self


class RetrievalSettings(_Frozen):
    """How questions are answered when the caller does not say."""

    ranking: Literal["vector", "hybrid"] = "vector"
    top_k: Annotated[int, Field(ge=1, le=20)] = 5
    trim: bool = False
    trim_mode: TrimMode = "cosine"
    trim_threshold: Annotated[float, Field(ge=-1, le=1)] = 0.38
    trim_min_sentences: Annotated[int, Field(ge=0)] = 1
    trim_window: Annotated[int, Field(ge=0)] = 0


class EvaluationSettings(_Frozen):
    """The A/B run: size of the golden set, the trimmed variant's settings, and the gate (per cent)."""

    questions: Annotated[int, Field(ge=1)] = 15
    top_k: Annotated[int, Field(ge=1, le=20)] = 5
    trim_mode: TrimMode = "cosine"
    trim_threshold: Annotated[float, Field(ge=-1, le=1)] = 0.38
    trim_window: Annotated[int, Field(ge=0)] = 1
    min_token_reduction_pct: float = 20.0
    min_overlap_pct: float = 70.0
    first_day: date = date(2026, 1, 1)


class ScheduleSettings(_Frozen):
    """When circuits run. `cron` overrides a circuit's own time, by the circuit's name."""

    timezone: str = "Europe/Madrid"
    enabled: bool = False
    cron: dict[str, str] = Field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value!r} is no IANA time zone; an example is 'Europe/Madrid'") from None
        return value

    @field_validator("cron")
    @classmethod
    def _good_cron(cls, value: dict[str, str]) -> dict[str, str]:
        for circuit, line in value.items():
            check_cron(circuit, line)
        return value


def check_cron(circuit: str, line: str) -> None:
    """Raise ValueError when `line` is no five-field cron line, or fires in the hour that changing clocks
    skip or repeat."""
    from datetime import datetime

    from cronsim import CronSim, CronSimError

    try:
        if len(line.split()) != 5 or _LAST_DAYS.search(line):
            raise CronSimError("not five fields, or not of the usual kind")
        hours = CronSim(line, datetime(2026, 1, 1)).hours
    except CronSimError:
        raise ValueError(
            f"{circuit}: {line!r} is no cron line; five fields are right, such as '30 4 * * *' "
            "(minute, hour, day, month, weekday)"
        ) from None
    if 2 in hours and hours not in _RHYTHMS:
        raise ValueError(
            f"{circuit}: {line!r} fires between 02:00 and 03:00, an hour that the change of clocks skips "
            "in spring and repeats in autumn; choose another"
        )


class Settings(_Frozen):
    """All settings of one project. `config` is the file they came from; `home` holds all state."""

    config: Path
    home: Path
    sources: tuple[Source, ...]
    model: ModelSettings = ModelSettings()
    chunks: ChunkSettings = ChunkSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    # A DuckDB ATTACH string and a LanceDB address; both lie below `home` unless set.
    warehouse: str = ""
    index: str = ""

    @field_validator("sources")
    @classmethod
    def _distinct(cls, value: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name for source in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sources are named {twice[0]!r}; each needs a name of its own")
        return value

    @property
    def warehouse_address(self) -> str:
        return self.warehouse or str(self.home / "warehouse.duckdb")

    @property
    def index_address(self) -> str:
        return self.index or str(self.home / "index")

    @property
    def locks(self) -> Path:
        return self.home / "locks"

    @property
    def query_log(self) -> Path:
        return self.home / "query_log"

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    @property
    def checkouts(self) -> Path:
        """Where clones of git sources are kept."""
        return self.home / "checkouts"

    def source(self, name: str) -> Source:
        """The source of that name; KeyError names those that exist."""
        for source in self.sources:
            if source.name == name:
                return source
        known = ", ".join(source.name for source in self.sources)
        raise KeyError(f"no source named {name!r} in {self.config}; there are: {known}")


def find_config(start: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """`BIB_CONFIG`, or the nearest bib.toml at or above `start` (the working directory by default)."""
    if named := environ.get("BIB_CONFIG"):
        return Path(named).absolute()
    start = (start or Path.cwd()).absolute()
    for folder in (start, *start.parents):
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    raise SettingsError(
        f"no {CONFIG_NAME} in {start} or above it; write one (sample/{CONFIG_NAME} is an example) "
        "or name it in BIB_CONFIG"
    )


def load_settings(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    missing_sources: Literal["refuse", "keep"] = "refuse",
) -> Settings:
    """Read and check `config` (see `find_config`), then lay the environment over it.

    Relative paths in the file are relative to the file. The environment may set BIB_HOME (default: `data`
    beside the file), BIB_WAREHOUSE, BIB_INDEX, RETRIEVAL_TRIM, RETRIEVAL_TRIM_MODE and
    RETRIEVAL_TRIM_THRESHOLD.

    `missing_sources="keep"` lets a source's folder be absent: for processes that work through several
    sources, where one that has vanished must not stop the others (reading it will fail, and say so).

    Raises SettingsError.
    """
    config = (config or find_config(environ=environ)).absolute()
    raw = _parse(config)
    _retrieval_from(environ, raw)
    home = Path(environ.get("BIB_HOME") or config.parent / "data").absolute()
    if home.exists() and not home.is_dir():
        raise SettingsError(f"BIB_HOME: {home} is a file; name a folder, which is made when there is none")
    raw |= {"config": config, "home": home}
    for key, variable in (("warehouse", "BIB_WAREHOUSE"), ("index", "BIB_INDEX")):
        if environ.get(variable):
            raw[key] = environ[variable]
        elif isinstance(raw.get(key), str) and raw[key] and not _SCHEME.match(raw[key]):
            raw[key] = str(config.parent / raw[key])
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        raise SettingsError(_explain(config, error)) from None
    sources = tuple(
        _placed(config, number, source, missing_sources == "keep")
        for number, source in enumerate(settings.sources)
    )
    return settings.model_copy(update={"sources": sources})


def _parse(config: Path) -> dict[str, Any]:
    try:
        raw = tomllib.loads(config.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{config}: no such file; name an existing {CONFIG_NAME} in BIB_CONFIG") from None
    except OSError as error:
        raise SettingsError(f"{config}: {error.strerror}; name a {CONFIG_NAME} in BIB_CONFIG") from None
    except (ValueError, RecursionError) as error:
        # Bad TOML and bad UTF-8 are ValueErrors, and so is a number of 5,000 digits.
        raise SettingsError(f"{config}: not readable as TOML: {error}") from None
    if not raw.get("sources"):
        raise SettingsError(
            f"{config}: sources: none given; at least one [[sources]] table is needed, "
            'such as name = "wiki", path = "wiki"'
        )
    for key in ("config", "home"):
        if key in raw:
            raise SettingsError(f"{config}: {key}: unknown key; where state lives is set by BIB_HOME")
    return raw


def _retrieval_from(environ: Mapping[str, str], raw: dict[str, Any]) -> None:
    retrieval = raw.setdefault("retrieval", {})
    if not isinstance(retrieval, dict):
        return
    if "RETRIEVAL_TRIM" in environ:
        value = environ["RETRIEVAL_TRIM"].strip().lower()
        if value not in ("", "0", "1", "true", "false"):
            raise SettingsError(f"RETRIEVAL_TRIM: {value!r} is neither 1 nor 0")
        retrieval["trim"] = value in ("1", "true")
    if mode := environ.get("RETRIEVAL_TRIM_MODE", "").strip():
        if mode not in TRIM_MODES:
            raise SettingsError(f"RETRIEVAL_TRIM_MODE: {mode!r} is not among {', '.join(TRIM_MODES)}")
        retrieval["trim_mode"] = mode
    if threshold := environ.get("RETRIEVAL_TRIM_THRESHOLD"):
        try:
            cosine = float(threshold)
        except ValueError:
            cosine = math.nan
        # Here, because what follows would blame the file.
        if not -1 <= cosine <= 1:
            raise SettingsError(
                f"RETRIEVAL_TRIM_THRESHOLD: {threshold!r} is no cosine; a number from -1 to 1 is right, "
                "such as 0.38"
            )
        retrieval["trim_threshold"] = cosine


def _placed(config: Path, number: int, source: Source, may_be_missing: bool) -> Source:
    """The source with its path made absolute. Inside a cloned repository it stays relative."""
    if source.path is None or source.url is not None:
        return source
    path = (config.parent / source.path).absolute()
    if not may_be_missing and not path.is_dir():
        what = "is a file" if path.exists() else "no such folder"
        raise SettingsError(
            f"{config}: sources[{number}].path ({source.name}): {what}: {path}; "
            f"name an existing folder, relative to {config.parent}"
        )
    return source.model_copy(update={"path": path})


def _explain(config: Path, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
        key = key.lstrip(".") or "(file)"
        if problem["type"] == "extra_forbidden":
            lines.append(f"{config}: {key}: unknown key{_nearest(problem['loc'])}")
        else:
            message = _KINDS.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
            given = "" if problem["type"] == "value_error" else f" (given: {problem['input']!r:.80})"
            lines.append(f"{config}: {key}: {message}{given}")
    return "\n".join(lines)


def _nearest(loc: tuple[int | str, ...]) -> str:
    """What the key was probably meant to be, and else what may stand there."""
    owner: Any = Settings
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        annotation = owner.model_fields[part].annotation
        owner = Source if part == "sources" else annotation
    known = [name for name in owner.model_fields if name not in ("config", "home")]
    close = difflib.get_close_matches(str(loc[-1]), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"
