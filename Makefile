# Two commands do everything from a fresh clone: `make demo` and `make test`.
# ARGS is passed on: make demo ARGS=--no-serve, make test ARGS="-k ngram".

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: setup demo test test-all lint bench clean

# The stamp is newer than pyproject.toml only when everything it names is installed.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "satchel needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

setup: $(VENV)/installed

demo: setup
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
	for file in $(filter-out bench/measuring.py,$(wildcard bench/*.py)); do $(BIN)/python $$file $(ARGS) || exit 1; done

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
