#!/bin/sh
# Go 1.22 or newer for the Go client library: what the machine has, otherwise in build/go. Debian's Go is older, but any Go
# fetches another one as a module, checked against the public sums: the oldest that the library supports, for what works
# with that works with newer ones.
set -eu
cd "$(dirname "$0")/.."
version=1.22.12

is_new_enough() { # COMMAND
    found=$("$1" env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\ngo1.22\n' "$found" | sort -V | head -n 1)" = go1.22 ]
}
! is_new_enough go || exit 0
! is_new_enough build/go/bin/go || exit 0

command -v go >/dev/null || sh scripts/apt-install.sh golang-go
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
module=golang.org/toolchain@v0.0.1-go$version.$(go env GOOS)-$(go env GOARCH)
if ! (cd "$folder" && echo 'module none' > go.mod && GOFLAGS= GOMODCACHE="$folder/modules" go mod download "$module"); then
    echo "Go $version cannot be had here: the Go client library is not tested" >&2
    exit 0
fi
rm -rf build/go
mkdir -p build
cp -R "$folder/modules/$module" build/go
chmod -R u+w build/go
# A module's files are not executable.
chmod +x build/go/bin/* build/go/pkg/tool/*/*
is_new_enough build/go/bin/go
