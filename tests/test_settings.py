"""Settings: whatever a person can get wrong is refused, and the message names the file, the key and what would
be right."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from bib_orchestration.biblioteca.settings import (
    Settings,
    SettingsError,
    check_cron,
    find_config,
    load_settings,
)

ROOT = Path(__file__).resolve().parents[1]
WIKI = '[[sources]]\nname = "wiki"\npath = "wiki"\n'
GIT = '[[sources]]\nname = "code"\nkind = "git"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The place of a bib.toml, beside a folder `wiki` and a file `a-file`."""
    (tmp_path / "wiki").mkdir()
    (tmp_path / "a-file").write_text("x")
    return tmp_path / "bib.toml"


def loaded(config: Path, toml: str, **environ: str) -> Settings:
    config.write_text(toml, encoding="utf-8")
    return load_settings(config, environ=environ)


def refusal(config: Path, toml: str, **environ: str) -> str:
    with pytest.raises(SettingsError) as refused:
        loaded(config, toml, **environ)
    return str(refused.value)


# What is written, the key that the message must name, and parts of what it must say would be right.
WRONG = {
    "unknown key": (
        WIKI + "[retrieval]\ntrim_treshold = 0.4",
        "retrieval.trim_treshold",
        ["'trim_threshold'"],
    ),
    "unknown table": (WIKI + "[retreival]\ntop_k = 5", "retreival", ["did you mean 'retrieval'"]),
    "unknown key of a source": (
        WIKI + 'sourcetype = "wiki"',
        "sources[0].sourcetype",
        ["did you mean 'source_type'"],
    ),
    "unknown key, nothing near": (
        WIKI + "zzzz = 1",
        "sources[0].zzzz",
        ["there are:", "include", "language"],
    ),
    "a key of ours": ('home = "x"\n' + WIKI, "home", ["BIB_HOME"]),
    "missing folder": (
        '[[sources]]\nname = "wiki"\npath = "wikki"',
        "sources[0].path (wiki)",
        ["no such folder", "wikki", "name an existing folder, relative to"],
    ),
    "a file for a folder": (
        WIKI + '[[sources]]\nname = "f"\npath = "a-file"',
        "sources[1].path (f)",
        ["is a file", "name an existing folder"],
    ),
    "no path": ('[[sources]]\nname = "wiki"', "sources[0]", ["needs `path`"]),
    "no name": ('[[sources]]\npath = "wiki"', "sources[0].name", ["required"]),
    "a name that is none": (
        '[[sources]]\nname = "La Wiki"\npath = "wiki"',
        "sources[0].name",
        ["lower-case letters, digits, '-' and '_'"],
    ),
    "two of a name": (WIKI + WIKI, "sources", ["two sources are named 'wiki'", "a name of its own"]),
    "no sources": ("sources = []", "sources", ["[[sources]]", 'name = "wiki"']),
    "an empty file": ("", "sources", ["[[sources]]"]),
    "sources as a table": ('[sources]\nname = "wiki"', "sources", ["a list is right"]),
    "sources as a text": ('sources = "wiki"', "sources", ["a list is right", "given: 'wiki'"]),
    "globs as a text": (WIKI + 'include = "*.md"', "sources[0].include", ["a list is right"]),
    "a table as a number": ("retrieval = 5\n" + WIKI, "retrieval", ["a table is right", "given: 5"]),
    "cron as a text": (WIKI + '[schedules]\ncron = "0 5 * * *"', "schedules.cron", ["a table is right"]),
    "no globs": (WIKI + "include = []", "sources[0].include", ["*.md"]),
    "unknown kind": (WIKI + 'kind = "gti"', "sources[0].kind", ["'folder' or 'git'", "given: 'gti'"]),
    "unknown language": (WIKI + 'language = "xx"', "sources[0].language", ["es"]),
    "url of a folder": (WIKI + 'url = "https://x.es/y"', "sources[0]", ["`url`", 'kind "git"']),
    "ref of a folder": (WIKI + 'ref = "main"', "sources[0]", ["`ref`", 'kind "git"']),
    "fetch of a folder": (WIKI + "fetch = true", "sources[0]", ["`fetch`", 'kind "git"']),
    "git without a place": (GIT, "sources[0]", ["`path` (a checkout on this machine) or `url`"]),
    "url that is an option": (GIT + 'url = "--upload-pack=touch x"', "sources[0]", ["is not a git address"]),
    "url that is a command": (GIT + 'url = "ext::sh -c touch% x"', "sources[0]", ["is not a git address"]),
    "url that is blank": (GIT + 'url = " "', "sources[0]", ["is not a git address"]),
    "ref that is an option": (
        GIT + 'path = "wiki"\nref = "--output=x"',
        "sources[0]",
        ["is not a branch, tag or commit"],
    ),
    "ref that is blank": (GIT + 'path = "wiki"\nref = ""', "sources[0]", ["is not a branch, tag or commit"]),
    "unknown zone": (
        WIKI + '[schedules]\ntimezone = "Europe/Madird"',
        "schedules.timezone",
        ["'Europe/Madrid'"],
    ),
    "a zone that is a folder": (WIKI + '[schedules]\ntimezone = "Europe"', "schedules.timezone", ["IANA"]),
    "bad cron": (
        WIKI + '[schedules.cron]\nwiki = "at four"',
        "schedules.cron",
        ["wiki: 'at four'", "five fields are right", "30 4 * * *"],
    ),
    "cron in the small hours": (
        WIKI + '[schedules.cron]\nwiki = "30 2 * * *"',
        "schedules.cron",
        ["wiki: '30 2 * * *'", "02:00 and 03:00", "choose another"],
    ),
    "top_k too large": (WIKI + "[retrieval]\ntop_k = 21", "retrieval.top_k", ["less than or equal to 20"]),
    "top_k too small": (WIKI + "[evaluation]\ntop_k = 0", "evaluation.top_k", ["greater than or equal to 1"]),
    "a threshold that is no number": (
        WIKI + "[retrieval]\ntrim_threshold = nan",
        "retrieval.trim_threshold",
        ["finite number"],
    ),
    "a gate that nothing passes": (
        WIKI + "[evaluation]\nmin_overlap_pct = nan",
        "evaluation.min_overlap_pct",
        ["finite number"],
    ),
    "no golden set": (WIKI + "[evaluation]\nquestions = 0", "evaluation.questions", ["equal to 1"]),
    "a day that is none": (WIKI + '[evaluation]\nfirst_day = "2026-13-01"', "evaluation.first_day", ["1-12"]),
    "chunk sizes out of order": (
        WIKI + "[chunks]\nmin_tokens = 300",
        "chunks",
        ["at most half of max_tokens (400)"],
    ),
    "no thread": (WIKI + "[model]\nthreads = 0", "model.threads", ["greater than or equal to 1"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_file_and_key_and_what_would_be_right(
    config: Path, case: str
) -> None:
    toml, key, said = WRONG[case]
    message = refusal(config, toml)
    assert message.startswith(f"{config}: {key}: ")
    assert [part for part in said if part not in message] == [], message


def test_all_faults_are_told_at_once(config: Path) -> None:
    lines = refusal(config, WIKI + "[retrieval]\ntop_k = 0\ntrim_windw = 1\n").split("\n")
    assert [line.split(": ")[1] for line in lines] == ["retrieval.top_k", "retrieval.trim_windw"]


@pytest.mark.parametrize(
    ("written", "said"),
    [(b'[[sources]\nname = "wiki"', "line 1"), (b"\xff\xfe\x00", "codec"), (b'name = "caf\xe9"', "codec")],
)
def test_a_file_that_is_no_toml(config: Path, written: bytes, said: str) -> None:
    config.write_bytes(written)
    with pytest.raises(SettingsError) as refused:
        load_settings(config, environ={})
    assert str(refused.value).startswith(f"{config}: not readable as TOML: ")
    assert said in str(refused.value)


def test_a_byte_order_mark_is_no_fault(config: Path) -> None:
    config.write_bytes(b"\xef\xbb\xbf" + WIKI.encode())
    assert load_settings(config, environ={}).sources[0].name == "wiki"


# --- cron lines


@pytest.mark.parametrize(
    "line",
    [
        "30 2 * * *",
        "30 02 * * *",
        "0 1-3 * * *",
        "0 0-4/2 * * *",
        "0 2-2 * * *",
        "5 1,2 * * 1",
        "59 2,14 * * *",
        "0 2/6 * * *",
    ],
)
def test_no_cron_line_may_name_the_hour_that_the_change_of_clocks_skips(line: str) -> None:
    with pytest.raises(ValueError, match="between 02:00 and 03:00"):
        check_cron("wiki", line)


@pytest.mark.parametrize(
    "line",
    [
        "*/10 * * * *",
        "20 * * * *",
        "0 */2 * * *",
        "0 12,20-22 * * *",
        "2 3 2 2 2",
        "0 5 L * *",
        "0 1 * * MON",
    ],
)
def test_rhythms_round_the_clock_and_other_hours_are_right(line: str) -> None:
    check_cron("wiki", line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "5",
        "0 5 * *",
        "0 5 * * * *",
        "@daily",
        "0 24 * * *",
        "60 5 * * *",
        "0 5 31 2 *",
        "0 5 LW * *",
        "0 5 * * 5L",
    ],
)
def test_lines_that_a_scheduler_would_not_take(line: str) -> None:
    with pytest.raises(ValueError, match="five fields are right"):
        check_cron("wiki", line)


# --- the environment


def test_state_lies_beside_the_file_unless_bib_home_says_where(config: Path, tmp_path: Path) -> None:
    assert loaded(config, WIKI).home == tmp_path / "data"
    assert loaded(config, WIKI, BIB_HOME="").home == tmp_path / "data"
    elsewhere = loaded(config, WIKI, BIB_HOME=str(tmp_path / "elsewhere"))
    assert elsewhere.home == tmp_path / "elsewhere"
    for place in (elsewhere.warehouse_address, elsewhere.index_address, elsewhere.locks, elsewhere.query_log):
        assert Path(place).is_relative_to(tmp_path / "elsewhere")


def test_bib_home_is_relative_to_the_working_directory(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert loaded(config, WIKI, BIB_HOME="state").home == tmp_path / "here" / "state"


def test_bib_home_that_is_a_file(config: Path, tmp_path: Path) -> None:
    message = refusal(config, WIKI, BIB_HOME=str(tmp_path / "a-file"))
    assert (
        message
        == f"BIB_HOME: {tmp_path / 'a-file'} is a file; name a folder, which is made when there is none"
    )


def test_addresses_of_the_stores(config: Path) -> None:
    settings = loaded(config, WIKI, BIB_WAREHOUSE="md:kb", BIB_INDEX="s3://bucket/index")
    assert (settings.warehouse_address, settings.index_address) == ("md:kb", "s3://bucket/index")


def test_bib_config_names_the_file(config: Path, tmp_path: Path) -> None:
    config.write_text(WIKI)
    environ = {"BIB_CONFIG": str(config)}
    assert load_settings(environ=environ).config == config
    missing = tmp_path / "none.toml"
    for wrong, said in ((missing, "no such file"), (tmp_path, "directory")):
        with pytest.raises(SettingsError) as refused:
            load_settings(environ={"BIB_CONFIG": str(wrong)})
        assert str(refused.value).startswith(f"{wrong}: ")
        assert said in str(refused.value)
        assert "BIB_CONFIG" in str(refused.value)


def test_the_nearest_bib_toml_at_or_above_is_found(config: Path, tmp_path: Path) -> None:
    config.write_text(WIKI)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_config(deep, {}) == config
    (tmp_path / "a" / "bib.toml").write_text(WIKI)
    assert find_config(deep, {}) == tmp_path / "a" / "bib.toml"


def test_no_bib_toml_anywhere(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        find_config(tmp_path, {})
    message = str(refused.value)
    assert message.startswith(f"no bib.toml in {tmp_path} or above it")
    assert "sample/bib.toml" in message
    assert "BIB_CONFIG" in message


@pytest.mark.parametrize(
    ("value", "trim"),
    [("1", True), ("true", True), (" TRUE ", True), ("0", False), ("false", False), ("", False)],
)
def test_retrieval_trim_lies_over_the_file(config: Path, value: str, trim: bool) -> None:
    written = WIKI + f"[retrieval]\ntrim = {str(not trim).lower()}\n"
    assert loaded(config, written).retrieval.trim is not trim
    assert loaded(config, written, RETRIEVAL_TRIM=value).retrieval.trim is trim


def test_retrieval_trim_that_is_neither(config: Path) -> None:
    assert (
        refusal(config, WIKI, RETRIEVAL_TRIM="yes please")
        == "RETRIEVAL_TRIM: 'yes please' is neither 1 nor 0"
    )


def test_retrieval_trim_threshold_lies_over_the_file(config: Path) -> None:
    written = WIKI + "[retrieval]\ntrim_threshold = 0.5\n"
    assert loaded(config, written).retrieval.trim_threshold == 0.5
    assert loaded(config, written, RETRIEVAL_TRIM_THRESHOLD="0.25").retrieval.trim_threshold == 0.25
    assert loaded(config, written, RETRIEVAL_TRIM_THRESHOLD="").retrieval.trim_threshold == 0.5


def test_retrieval_trim_mode_lies_over_the_file(config: Path) -> None:
    written = WIKI + '[retrieval]\ntrim_mode = "margin"\n'
    assert loaded(config, WIKI).retrieval.trim_mode == "cosine"
    assert loaded(config, written).retrieval.trim_mode == "margin"
    assert loaded(config, written, RETRIEVAL_TRIM_MODE="cosine-auto").retrieval.trim_mode == "cosine-auto"
    assert loaded(config, written, RETRIEVAL_TRIM_MODE="").retrieval.trim_mode == "margin"


def test_a_trim_mode_that_is_none(config: Path) -> None:
    assert (
        refusal(config, WIKI, RETRIEVAL_TRIM_MODE="margen")
        == "RETRIEVAL_TRIM_MODE: 'margen' is not among cosine, cosine-auto, margin"
    )
    assert "'cosine', 'cosine-auto' or 'margin'" in refusal(
        config, WIKI + '[retrieval]\ntrim_mode = "auto"\n'
    )


@pytest.mark.parametrize("value", ["0,38", "much", "7", "-1.01", "nan", "inf"])
def test_a_threshold_in_the_environment_that_is_none(config: Path, value: str) -> None:
    message = refusal(config, WIKI, RETRIEVAL_TRIM_THRESHOLD=value)
    assert message.startswith(f"RETRIEVAL_TRIM_THRESHOLD: {value!r} is no cosine")
    assert "0.38" in message


# --- what is right


def test_the_contracts_defaults(config: Path) -> None:
    settings = loaded(config, WIKI)
    retrieval, evaluation, schedules = settings.retrieval, settings.evaluation, settings.schedules
    assert (retrieval.ranking, retrieval.trim, retrieval.top_k) == ("vector", False, 5)
    assert (retrieval.trim_threshold, retrieval.trim_min_sentences, retrieval.trim_window) == (0.38, 1, 0)
    assert (evaluation.questions, evaluation.top_k) == (15, 5)
    assert (evaluation.trim_threshold, evaluation.trim_window) == (0.38, 1)
    assert (evaluation.min_token_reduction_pct, evaluation.min_overlap_pct) == (20.0, 70.0)
    assert (schedules.timezone, schedules.enabled, schedules.cron) == ("Europe/Madrid", False, {})


def test_session_notes_leave_out_the_log_the_reports_and_the_archive(config: Path) -> None:
    (source,) = loaded(config, WIKI + 'source_type = "session"\nexclude = ["draft*"]\n').sources
    assert {"LOG.md", "reports/", "_archive/", "draft*"} <= set(source.excluded)
    (other,) = loaded(config, WIKI).sources
    assert "LOG.md" not in other.excluded


def test_paths_are_relative_to_the_file_but_inside_a_clone(config: Path, tmp_path: Path) -> None:
    wiki, code = loaded(config, WIKI + GIT + 'url = "https://git.example/x.git"\npath = "docs"\n').sources
    assert wiki.path == tmp_path / "wiki"
    assert code.path == Path("docs")


def test_a_source_that_has_vanished_may_be_kept_for_those_who_work_through_several(
    config: Path, tmp_path: Path
) -> None:
    config.write_text(WIKI + '[[sources]]\nname = "gone"\npath = "gone"\n')
    kept = load_settings(config, environ={}, missing_sources="keep")
    assert [source.path for source in kept.sources] == [tmp_path / "wiki", tmp_path / "gone"]
    with pytest.raises(SettingsError, match=r"sources\[1\].path \(gone\): no such folder"):
        load_settings(config, environ={})


@pytest.mark.parametrize("shipped", ["bib.toml", "sample/bib.toml"])
def test_the_shipped_files_load_strictly(shipped: str) -> None:
    settings = load_settings(ROOT / shipped, environ={})
    assert settings.sources
    assert all(source.path is not None and source.path.is_dir() for source in settings.sources)
    assert not settings.schedules.enabled


def test_the_sample_covers_the_types_of_source_and_begins_with_its_oldest_question() -> None:
    sample = load_settings(ROOT / "sample" / "bib.toml", environ={})
    assert {source.source_type for source in sample.sources} == {"wiki", "docs", "session", "method"}
    assert sample.evaluation.first_day == date(2026, 9, 2)


def test_an_unknown_source_is_told_with_those_that_there_are(config: Path) -> None:
    with pytest.raises(KeyError, match=f"no source named 'wikki' in {config}; there are: wiki"):
        loaded(config, WIKI).source("wikki")
