# make setup   a .venv with everything
# make demo    index sample/, evaluate, print the summary, leave the UI running (UI=0: without it)
# make ui      Dagster's UI, for the bib.toml in use
# make test    lint, format, types, import contracts, tests
PYTHON ?= python3
PORT ?= 3000
UI ?= 1
BIN := .venv/bin

export BIB_HOME ?= $(CURDIR)/data
export DAGSTER_HOME ?= $(BIB_HOME)/dagster
export DAGSTER_DISABLE_TELEMETRY := 1

.PHONY: setup demo ui test lint clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: export BIB_CONFIG := $(CURDIR)/sample/bib.toml
demo: setup
	@$(BIN)/bib log import sample/query_log.jsonl
	@$(BIN)/bib backfill --sources all --days 2026-10-25..2026-10-31
	@$(BIN)/bib eval --day 2026-10-31
	@$(BIN)/bib status
ifneq ($(UI),0)
	@$(MAKE) --no-print-directory ui
endif

ui: setup
	@mkdir -p $(DAGSTER_HOME)
	@test -e $(DAGSTER_HOME)/dagster.yaml || cp bib_orchestration/dagster.yaml $(DAGSTER_HOME)/
	@echo "Dagster's UI: http://127.0.0.1:$(PORT) (stop with Ctrl-C)"
	@PYTHONWARNINGS='ignore:Function `dev_command`' $(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

test: lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv data build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
