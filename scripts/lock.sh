#!/bin/sh
# Resolves the lock files anew. They name no registry: whoever installs uses the one they are set up for.
set -eu
cd "$(dirname "$0")/.."
compile() {
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header "$@"
}
compile pyproject.toml -o requirements.lock
compile pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
echo uv | compile - -o requirements-tools.lock
compile scripts/sdks/requirements.in -o scripts/sdks/requirements.lock
(cd scripts/sdks && npm install --silent --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts)
