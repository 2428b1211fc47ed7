#!/bin/sh
# The Python client library beside others: installs these into build/client-bench, then measures.
# Usage: scripts/client-bench.sh [--events N] [--rounds N]
set -eu
cd "$(dirname "$0")/.."

uv=uv
uv --version >/dev/null 2>&1 || uv=.tools/bin/uv
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE="${UV_LINK_MODE:-copy}"

lock=clients/python/bench/requirements.lock
if [ ! -e build/client-bench/.ready ] || [ "$lock" -nt build/client-bench/.ready ]; then
    rm -rf build/client-bench
    mkdir -p build
    "$uv" venv --quiet --python .venv/bin/python build/client-bench
    "$uv" pip install --quiet --python build/client-bench/bin/python --require-hashes -r "$lock"
    touch build/client-bench/.ready
fi
exec build/client-bench/bin/python clients/python/bench/compare.py "$@"
