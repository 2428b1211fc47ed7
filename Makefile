# Every target explains itself: `make help`.
.DEFAULT_GOAL := help
.PHONY: help setup run test lint format bench scale faults edges reference tour image lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready-dev ## Install everything into .venv (gives .venv/bin/hookline) without starting anything
	@echo "Ready: .venv/bin/hookline. Next: make run"

run: .venv/.ready ## Start Hookline on ./hookline-data with a first source; Ctrl-C ends it, data stays
	@exec .venv/bin/hookline up --quickstart

test: .venv/.ready-dev ## Run all tests (installs Chromium, Node.js, strace, faketime, PostgreSQL and PgBouncer first where they are missing)
	@sh scripts/test-needs.sh
	@.venv/bin/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

lint: .venv/.ready-dev ## Check format, style, types and the order of the rooms
	@.venv/bin/ruff format --check src tests examples clients deploy bench
	@.venv/bin/ruff check src tests examples clients deploy bench
	@.venv/bin/mypy
	@.venv/bin/mypy --config-file clients/python/pyproject.toml
	@.venv/bin/lint-imports

format: .venv/.ready-dev ## Rewrite the sources in the house format
	@.venv/bin/ruff format src tests examples clients deploy bench
	@.venv/bin/ruff check --fix src tests examples clients deploy bench

bench: .venv/.ready ## Measure this machine: collect, deliver, end to end, idle (compares with nginx and wrk if installed)
	@.venv/bin/hookline bench all

scale: .venv/.ready-dev ## Measure how work grows with workers and destinations, on Kafka and PostgreSQL; write docs/reports/scale.md
	@sh scripts/test-needs.sh
	@sh scripts/kafka-jars.sh
	@.venv/bin/python -m tests.scale --write

faults: .venv/.ready-dev ## Damage what the service leans on, under load, for 75 minutes, and write the report (needs root; FAULTS=--resume goes on)
	@sh scripts/test-needs.sh
	@.venv/bin/python -m tests.faults --json build/faults.json --write docs/reports/faults.md $(FAULTS)

edges: .venv/.ready-dev ## Play nginx, HAProxy, Apache, Caddy and Varnish before it and sixty odd receivers behind it, and write the report
	@sh scripts/test-needs.sh
	@sh scripts/apt-install.sh varnish
	@.venv/bin/python -m bench.edges --write

reference: .venv/.ready-dev ## Write the pages of docs/ that are made from the code anew
	@.venv/bin/python -m hookline.control.openapi.reference

tour: .venv/.ready-dev ## Write docs/tour.md and its pictures anew, from the real pages (needs Chromium)
	@.venv/bin/python -m tests.ui.tour

image: ## Build the container image, from a base image named by its digest (PYTHON_IMAGE=...@sha256:...)
	@sh scripts/image.sh

lock: ## Resolve all lock files anew (needs uv)
	@sh scripts/lock.sh

clean: ## Remove what setup and the tests made; data folders stay
	@rm -rf .venv .tools build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/.ready: requirements.lock requirements-build.lock pyproject.toml clients/python/pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh requirements.lock $@

.venv/.ready-dev: requirements-dev.lock requirements.lock requirements-build.lock pyproject.toml clients/python/pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh requirements-dev.lock $@
	@touch .venv/.ready
