#!/bin/sh
# Installs a lock file and Hookline itself into .venv, then touches the stamp that make compares with.
# Usage: scripts/setup.sh LOCK_FILE STAMP
set -eu
cd "$(dirname "$0")/.."
lock=$1
stamp=$2

fail() {
    echo "setup: $*" >&2
    exit 1
}

# The newest interpreter that is at least 3.11; PYTHON=… chooses one.
find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# Debian and Ubuntu ship python3 without ensurepip; the package that holds it is named after the interpreter.
need_venv() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    command -v apt-get >/dev/null || fail "$python lacks the modules venv and ensurepip; install them and try again"
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    sh scripts/apt-install.sh "$version-venv" || sh scripts/apt-install.sh python3-venv ||
        fail "could not install $version-venv; install it and try again"
}

find_uv() {
    if uv --version >/dev/null 2>&1; then
        echo uv
    elif [ -x .tools/bin/uv ]; then
        echo .tools/bin/uv
    else
        need_venv >&2
        "$python" -m venv .tools >&2
        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tools.lock >&2
        echo .tools/bin/uv
    fi
}

python=$(find_python) || fail "Hookline needs Python 3.11 or newer; install it, or name it: make setup PYTHON=/path/to/python3"
uv=$(find_uv) || exit 1
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE="${UV_LINK_MODE:-copy}"

[ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv
# Install rather than sync: the smaller lock must not take away what the larger one brought.
"$uv" pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
"$uv" pip install --quiet --python .venv/bin/python --no-deps --editable .
touch "$stamp"
