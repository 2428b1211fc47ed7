# Every target explains itself: `make help`.
.DEFAULT_GOAL := help
# What is compiled is kept: services that tests start, and test files, would else be compiled at every start.
unexport PYTHONDONTWRITEBYTECODE
# Of the tests, for two cores and more: they wait for processes, brokers and browsers. With four a twentieth of two cores is
# idle; with five a hundredth, and with six they take a minute longer, as each has less of the cores' caches.
WORKERS ?= 5
.PHONY: help setup run test check hunt lint format bench compare crash long isolation worlds scale faults upgrades edges packages reference docs release roots tour screens image lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready-dev ## Install everything into .venv (gives .venv/bin/hookline) without starting anything
	@echo "Ready: .venv/bin/hookline. Next: make run"

run: .venv/.ready ## Start Hookline on ./hookline-data with a first source; Ctrl-C ends it, data stays
	@exec .venv/bin/hookline up --quickstart

test: .venv/.ready-dev ## Run all tests (installs Chromium, Node.js, strace, faketime, PostgreSQL and PgBouncer first where they are missing)
	@sh scripts/test-needs.sh
	@.venv/bin/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

check: .venv/.ready-dev ## Lint, and run the unit tests of what changed since main (SINCE=COMMIT), in 90 s: before each commit
	@sh scripts/check.sh $(SINCE)

hunt: .venv/.ready-dev ## Look for what a usual run does not meet: many times its cases, seeds and kills, for some hours
	@sh scripts/test-needs.sh
	@HOOKLINE_TEST_SIMULATION_SEEDS=5000 HOOKLINE_TEST_MODEL_SEEDS=500 HOOKLINE_TEST_FLIPS=2000 \
		HOOKLINE_TEST_MAPPING_PAIRS=100000 \
		.venv/bin/python -m pytest -n auto --dist loadscope --hypothesis-profile=hunt --timeout=7200 -o faulthandler_timeout=7260 \
		--fuzz-seconds 3600 --cycles 500 --client-cycles 100 \
		tests/fuzz tests/clients tests/service/crash tests/unit/collect tests/unit/deliver tests/unit/journal \
		tests/unit/kinds tests/unit/people tests/worlds

lint: .venv/.ready-dev ## Check format, style, types, the order of the rooms, and that every test can be imported
	@.venv/bin/ruff format --check src tests examples clients deploy bench scripts
	@.venv/bin/ruff check src tests examples clients deploy bench scripts
	@.venv/bin/mypy
	@.venv/bin/mypy --config-file clients/python/pyproject.toml
	@.venv/bin/lint-imports
	@.venv/bin/python scripts/house.py --check
	@.venv/bin/python -m pytest --collect-only -qqq >.venv/collected || { cat .venv/collected; exit 1; }

format: .venv/.ready-dev ## Rewrite the sources in the house format
	@.venv/bin/ruff format src tests examples clients deploy bench scripts
	@.venv/bin/ruff check --fix src tests examples clients deploy bench scripts

bench: .venv/.ready ## Measure this machine: collect, deliver, end to end, idle (compares with nginx and wrk if installed)
	@.venv/bin/hookline bench all

compare: .venv/.ready-dev ## Measure Dramatiq, arq and Celery at the same work (needs redis-server; installs them in a temporary folder)
	@.venv/bin/python -m bench compare

crash: .venv/.ready-dev ## Damage a real service in every way for some minutes, and write docs/reports/crash.md (needs root, strace, libfaketime)
	@.venv/bin/python -m bench.crash --cycles 12 --seconds 60 --write docs/reports/crash.md

long: .venv/.ready-dev ## Go on with the runs that take hours: kills, power cuts, soak, fuzzing … (LONG="--minutes 60"; needs root, strace, libfaketime)
	@sh scripts/test-needs.sh
	@sh scripts/kafka-jars.sh
	@.venv/bin/python -m bench.long $(LONG)

isolation: .venv/.ready-dev ## Measure for five minutes what sick receivers do to healthy ones, and write docs/reports/isolation.md
	@.venv/bin/python -m bench.isolation --seconds 10 --write docs/reports/isolation.md

worlds: .venv/.ready-dev ## Live through a thousand seeded worlds of faults; a failing one is made smaller (WORLDS="--seed 14 --keep 0,1")
	@.venv/bin/python -m tests.worlds $(or $(WORLDS),--seeds 1000)

scale: .venv/.ready-dev ## Measure how work grows with workers and destinations, on Kafka and PostgreSQL; write docs/reports/scale.md
	@sh scripts/test-needs.sh
	@sh scripts/kafka-jars.sh
	@.venv/bin/python -m tests.scale --write

faults: .venv/.ready-dev ## Damage what the service leans on, under load, for 75 minutes, and write the report (needs root; FAULTS=--resume goes on)
	@sh scripts/test-needs.sh
	@.venv/bin/python -m tests.faults --json build/faults.json --write docs/reports/faults.md $(FAULTS)

upgrades: .venv/.ready-dev ## Upgrade three machines one after another, under load, with kills, on Kafka and PostgreSQL; write the report
	@sh scripts/test-needs.sh
	@sh scripts/kafka-jars.sh
	@.venv/bin/python -m tests.faults.rolling --write docs/reports/upgrades.md

edges: .venv/.ready-dev ## Play nginx, HAProxy, Apache, Caddy and Varnish before it and sixty odd receivers behind it, and write the report
	@sh scripts/test-needs.sh
	@sh scripts/apt-install.sh varnish
	@.venv/bin/python -m bench.edges --write

reference: .venv/.ready-dev ## Write the pages of docs/ that are made from the code, and THIRD_PARTY.md, anew
	@.venv/bin/python -m tests.docs.api_page
	@.venv/bin/python -m scripts.release.third_party

docs: .venv/.ready-dev ## Write the documentation as a site of files into build/docs
	@.venv/bin/python scripts/docs_site.py build/docs

tour: .venv/.ready-dev ## Write docs/tour.md and its pictures anew, from the real pages (needs Chromium)
	@.venv/bin/python -m tests.ui.tour

screens: .venv/.ready-dev ## Take a picture of every screen, light and dark, three widths, empty, busy and on fire (SCREENS=--quick; needs Chromium)
	@.venv/bin/python -m tests.ui.contact_sheet $(SCREENS)

image: ## Build the container image, from a base image named by its digest (PYTHON_IMAGE=...@sha256:...)
	@sh scripts/image.sh

packages: .venv/.ready-dev ## Build what is published into dist/, twice the same, check it, and try it in a clean environment (needs Go and Composer)
	@.venv/bin/python -m scripts.release packages

release: .venv/.ready-dev ## Check that all is fresh, build, and tag VERSION=1.2.3 here; refuses with a list (RELEASE=--allow-stale)
	@.venv/bin/python -m scripts.release $(VERSION) $(RELEASE)

roots: .venv/.ready-dev ## Try README and image on bare Debian systems; write docs/reports/packages.md (needs root and debootstrap)
	@sh scripts/apt-install.sh debootstrap buildah podman runc
	@.venv/bin/python -m scripts.release.roots --write docs/reports/packages.md

lock: ## Resolve all lock files anew (needs uv)
	@sh scripts/lock.sh

clean: ## Remove what setup and the tests made; data folders stay
	@rm -rf .venv .tools build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/.ready: requirements.lock requirements-build.lock pyproject.toml clients/python/pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh requirements.lock $@

.venv/.ready-dev: requirements-dev.lock requirements.lock requirements-build.lock pyproject.toml clients/python/pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh requirements-dev.lock $@
	@touch .venv/.ready
