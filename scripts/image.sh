#!/bin/sh
# Builds the image of a release: from a base image that is named by its digest, since a tag is whatever its registry says
# today. Usage: PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:DIGEST scripts/image.sh [TAG]; ENGINE=podman for another engine.
set -eu
cd "$(dirname "$0")/.."
if ! printf '%s\n' "${PYTHON_IMAGE:-}" | grep -Eq '^[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}$'; then
    echo "image: name the base image by its digest: make image PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:DIGEST;" \
        "docker pull python:3.11-slim-bookworm prints it" >&2
    exit 1
fi
engine=${ENGINE:-docker}
format=
case ${engine##*/} in
# In their own format these two leave out the health check.
podman | buildah) format="--format docker" ;;
esac
# shellcheck disable=SC2086
exec "$engine" build $format --file deploy/container/Containerfile --build-arg "PYTHON_IMAGE=$PYTHON_IMAGE" \
    --tag "${1:-hookline}" .
