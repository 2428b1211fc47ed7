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

# The quickest interpreter that is at least 3.11: builds of one version differ by a fifth and more in what an event
# costs, depending on how they were compiled. PYTHON=... chooses one.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_usable "$PYTHON" && command -v "$PYTHON"
        return
    fi
    usable=$(for candidate in python3 python3.14 python3.13 python3.12 python3.11 python /usr/bin/python3; do
        is_usable "$candidate" && "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
    done | sort -u)
    if [ "$(echo "$usable" | wc -l)" -eq 1 ]; then  # or none
        echo "$usable" | grep .
        return
    fi
    # Whichever is the quickest in most rounds: beside other work, one that is measured in a quiet moment would win.
    for _ in 1 2 3 4 5 6 7 8 9; do
        echo "$usable" | while IFS= read -r candidate; do
            echo "$(time_of "$candidate") $candidate"
        done | sort -n | head -n 1 | cut -d ' ' -f 2-
    done | sort | uniq -c | sort -rn | head -n 1 | sed 's/^ *[0-9]* //' | grep .
}

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Microseconds of a small piece of work, the best of some.
time_of() {
    "$1" -c '
from time import process_time

def work():
    began = process_time()
    kept = {}
    for number in range(20_000):
        kept[number & 255] = f"{number}".encode().find(b"7")
    return process_time() - began

print(int(min(work() for _ in range(4)) * 1e6))'
}

# The interpreter that makes the folder for uv: any that can. Debian and Ubuntu ship python3 without ensurepip; the
# package that holds it is named after the interpreter.
find_venv_python() {
    for candidate in "$python" python3; do
        if is_usable "$candidate" && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    command -v apt-get >/dev/null || fail "$python lacks the modules venv and ensurepip; install them and try again"
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    sh scripts/apt-install.sh "$version-venv" >&2 || sh scripts/apt-install.sh python3-venv >&2 ||
        fail "could not install $version-venv; install it and try again"
    echo "$python"
}

find_uv() {
    if uv --version >/dev/null 2>&1; then
        echo uv
    elif [ -x .tools/bin/uv ]; then
        echo .tools/bin/uv
    else
        maker=$(find_venv_python) || exit 1
        "$maker" -m venv .tools >&2
        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tools.lock >&2
        echo .tools/bin/uv
    fi
}

python=$(find_python) || fail "Hookline needs Python 3.11 or newer; install it, or name it: make setup PYTHON=/path/to/python3"
uv=$(find_uv) || exit 1
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE="${UV_LINK_MODE:-copy}"

if [ ! -x .venv/bin/python ]; then
    echo "Installing Hookline into .venv; this takes about a minute, once."
fi
[ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv
# Install rather than sync: the smaller lock must not take away what the larger one brought.
"$uv" pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
# The build backend is locked like the rest: an isolated build would fetch the newest there is.
"$uv" pip install --quiet --python .venv/bin/python --require-hashes -r requirements-build.lock
"$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable . --editable clients/python
echo "Compiling."
# Compiled here, once: where PYTHONDONTWRITEBYTECODE is set, every start would do it anew, and take twice as long. Some
# packages bring files that are no Python of this version, which nobody imports.
.venv/bin/python -m compileall -qq -j 0 .venv/lib/python*/site-packages || true
.venv/bin/python -m compileall -q -j 0 src clients/python/src
touch "$stamp"
