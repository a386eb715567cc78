# make setup   a .venv with everything
# make demo    index sample/, evaluate, print the summary, leave the UI running (UI=0: without it)
# make ui      Dagster's UI, for the bib.toml in use (PORT=3001: not at 3000)
# make test    lint, format, types, import contracts, tests
# make screenshots   the pictures in README, taken anew (needs a chromium)
PYTHON ?= python3
PORT ?= 3000
UI ?= 1
BIN := .venv/bin

export DAGSTER_DISABLE_TELEMETRY := 1

.PHONY: setup demo ui test lint screenshots clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "installing into .venv: 2 to 5 minutes, about 2 GB (PyTorch is most of it)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The demo has state of its own, so that its questions never mix with yours.
demo: export BIB_CONFIG := $(CURDIR)/sample/bib.toml
demo: export BIB_HOME := $(or $(BIB_HOME),$(CURDIR)/data/demo)
demo: setup
	@$(BIN)/bib log import sample/query_log.jsonl
	@$(BIN)/bib backfill --sources all --days 2026-10-25..2026-10-31
	@$(BIN)/bib eval --day 2026-10-31
	@$(BIN)/bib status
ifneq ($(UI),0)
	@$(MAKE) --no-print-directory ui
endif

# Where bib.toml in use keeps its state.
STATE = $(BIN)/python -c 'from bib_orchestration.biblioteca.settings import load_settings; \
  print(load_settings(missing_sources="keep").home)'

ui: setup
	@set -e; home=$$($(STATE))/dagster; mkdir -p "$$home"; \
	test -e "$$home/dagster.yaml" || cp bib_orchestration/dagster.yaml "$$home/"; \
	$(BIN)/python -c 'import socket; socket.socket().bind(("127.0.0.1", $(PORT)))' 2>/dev/null || \
	  { echo "port $(PORT) is taken; name another: make $(MAKECMDGOALS) PORT=3001"; exit 1; }; \
	echo "Dagster's UI: http://127.0.0.1:$(PORT) (stop with Ctrl-C)"; \
	DAGSTER_HOME="$${DAGSTER_HOME:-$$home}" PYTHONWARNINGS='ignore:Function `dev_command`' \
	  $(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

test: lint
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

screenshots: setup
	BIB_SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest tests/browser

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv data build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
