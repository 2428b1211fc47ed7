#!/bin/sh
# An environment with pytest for every Python from 3.10 on that this machine has, in build/client-pythons/VERSION: the
# tests of the client library run under each. Nothing is downloaded but pytest.
set -eu
cd "$(dirname "$0")/.."
lock=clients/python/tests/requirements.lock

uv=uv
uv --version >/dev/null 2>&1 || uv=.tools/bin/uv
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE="${UV_LINK_MODE:-copy}"

version_of() { # prints 3.12 for what is a Python that will do; a shim may stand for none
    "$1" -c 'import sys; sys.version_info >= (3, 10) and print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

minor=10
while [ $minor -le 20 ]; do
    for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python \
        "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3.$minor.*/bin/python; do
        [ "$(version_of "$python")" = "3.$minor" ] || continue
        folder=build/client-pythons/3.$minor
        if [ ! -e "$folder/.ready" ] || [ "$lock" -nt "$folder/.ready" ]; then
            rm -rf "$folder"
            mkdir -p build/client-pythons
            "$uv" venv --quiet --python "$(command -v "$python")" "$folder"
            "$uv" pip install --quiet --python "$folder/bin/python" --compile-bytecode --require-hashes -r "$lock"
            touch "$folder/.ready"
        fi
        break
    done
    minor=$((minor + 1))
done
