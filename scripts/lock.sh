#!/bin/sh
# Resolves the lock files anew, with --keep to the versions that they have wherever those still fit. They name no registry:
# whoever installs uses the one they are set up for.
set -eu
cd "$(dirname "$0")/.."
upgrade=--upgrade
[ "${1:-}" != --keep ] || upgrade=
compile() {
    # shellcheck disable=SC2086
    uv pip compile --quiet $upgrade --universal --python-version "${python:-3.11}" --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header "$@"
}
compile pyproject.toml -o requirements.lock
# The extras of the Python client are for its tests, so they are in the lock of the developers.
compile pyproject.toml clients/python/pyproject.toml --all-extras --group dev -c requirements.lock -o requirements-dev.lock
# The image has the extras for Kafka, PostgreSQL, tracing and files as well.
compile pyproject.toml --extra files --extra kafka --extra postgres --extra otel -c requirements-dev.lock -o deploy/container/requirements.lock
# What builds the packages themselves; beside the others in one environment, so of the same versions.
printf 'hatchling>=1.27\neditables\n' | compile -c requirements-dev.lock - -o requirements-build.lock
echo uv | compile - -o requirements-tools.lock
(cd clients/python/tests && python=3.10 && compile requirements.in -o requirements.lock)
(cd clients/python/bench && compile requirements.in -o requirements.lock)
# What writes the bill of materials of a release.
(cd scripts/release && compile -c ../../requirements-dev.lock requirements.in -o requirements.lock)
compile scripts/sdks/requirements.in -o scripts/sdks/requirements.lock
(cd scripts/sdks && npm install --silent --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts)
