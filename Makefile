# `make demo` and `make test` do all their own set-up; `make help` tells the rest.

.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
RUN := scripts/run
ROOM ?= all
ARGS ?=

.PHONY: help setup demo test check format bench clean

help: ## Say what each target does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv, install what is needed, find or fetch a Java runtime (part of every other target)
	@scripts/setup

demo: setup ## Show what Penstock does, on this machine
	@$(RUN) $(PY) examples/demo.py
	@$(RUN) $(PY) examples/shop.py

test: setup ## Run all tests (ARGS="-k name" to choose)
	@$(RUN) $(PY) -m pytest -n auto --dist loadgroup $(ARGS)

check: setup ## Format, lint, types, import rules, doctests of the pages
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache
	@$(RUN) $(PY) -m pytest -q README.md docs

format: setup ## Put the code into its format
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench: setup ## Measure (ROOM=changes for one room); results go to bench/results/
	@$(RUN) $(PY) -m bench $(ROOM) $(ARGS)

clean: ## Remove what setup, tests and tools made
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
