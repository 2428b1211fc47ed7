#!/bin/sh
# A real S3-compatible server for the tests: versitygw, which keeps a bucket in a folder, in build/s3. Built from Go
# modules whose sums are locked. Where it cannot be built, the tests that need it are left out and the test run says so.
set -eu
cd "$(dirname "$0")/.."
if cmp -s scripts/s3/go.sum build/s3/go.sum 2>/dev/null && [ -x build/s3/versitygw ]; then
    exit 0
fi
go=go
# Debian's Go cannot fetch the newer one that go.mod asks for; the one that scripts/go.sh brought beside it can.
[ ! -x build/go/bin/go ] || go=$PWD/build/go/bin/go
mkdir -p build/s3
if ! (cd scripts/s3 && GOFLAGS=-mod=readonly GOTOOLCHAIN=auto "$go" build -trimpath -ldflags '-s -w' -o ../../build/s3/versitygw \
    github.com/versity/versitygw/cmd/versitygw); then
    echo "versitygw cannot be built here: files in S3 are not tested" >&2
    exit 0
fi
cp scripts/s3/go.sum build/s3/go.sum
