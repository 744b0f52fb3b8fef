# From a fresh clone: `make demo` shows the package, `make test` runs all checks. Both create .venv if it is missing.
# ARGS is passed on: make demo ARGS=--no-serve, make test ARGS="-k ngram".

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=

.PHONY: setup demo test test-all lint bench clean

# A stamp is newer than pyproject.toml only if all dependencies of that stage are installed.
$(VENV)/base: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "satchel needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) --editable .
	touch $@

# Development tools, installed into the same environment.
$(VENV)/dev: $(VENV)/base
	$(PIP) --editable '.[dev]'
	touch $@

setup: $(VENV)/dev

demo: $(VENV)/base
	$(BIN)/satchel demo $(ARGS)

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint
	$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

test-all: lint
	$(BIN)/pytest -n 2 --dist worksteal -m '' --hypothesis-profile=explore $(ARGS)

bench: setup
	for file in $(filter-out bench/measure.py,$(wildcard bench/*.py)); do $(BIN)/python $$file $(ARGS) || exit 1; done

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
