#!/bin/sh
# Format, style, types and the order of the rooms, beside the unit tests of what changed since COMMIT: for before each
# commit, in a minute and a half. Usage: scripts/check.sh [COMMIT]; without one, since the branch left main.
set -eu
cd "$(dirname "$0")/.."
main=$(git rev-parse --verify --quiet origin/main || git rev-parse --verify --quiet main || git rev-parse HEAD)
since=${1:-$(git merge-base HEAD "$main")}
seconds=60 # for tests; in a change of everything, those that were not reached by then are counted, and left to `make test`

# tests/unit has the folders of src/hookline.
tests_of() {
    while read -r file; do
        case $file in
        tests/unit/*/test_*.py | tests/unit/test_*.py | tests/docs/test_*.py | clients/python/tests/test_*.py) echo "$file" ;;
        src/hookline/features/*) room=${file#src/hookline/features/} && echo "tests/unit/features/${room%%/*}" && echo tests/unit/web ;;
        tests/unit/*/* | src/hookline/*/*) room=${file#*/*/} && echo "tests/unit/${room%%/*}" ;;
        src/hookline/*.py) echo "tests/unit/test_${file##*/}" ;;
        clients/python/*) echo clients/python/tests ;;
        tests/unit/*) echo tests/unit ;;
        scripts/release/* | tests/deploy/test_release.py) echo tests/deploy/test_release.py ;;
        tests/*/*) ;; # with real processes: those are for `make test`
        tests/*.py | pyproject.toml) echo tests/unit ;;
        esac
    done | sort -u | while read -r path; do
        [ ! -e "$path" ] || echo "$path"
    done
}

changed=$({ git diff --name-only "$since" && git ls-files --others --exclude-standard; } | tests_of)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make --no-print-directory lint >"$log" 2>&1 &
lint=$!
failed=0
# shellcheck disable=SC2086
.venv/bin/python -m pytest -q -n auto --dist worksteal --within "$seconds" ${changed:-tests/unit clients/python/tests} || failed=$?
wait "$lint" || failed=$?
cat "$log"
exit "$failed"
