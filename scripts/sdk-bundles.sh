#!/bin/sh
# Browser SDKs that come as one bundle but name many packages: fetched without those, checked by hash, into build/sdks.
set -eu
cd "$(dirname "$0")/.."

while read -r package version hash; do
    folder=build/sdks/node_modules/$package
    [ "$(cat "$folder/.version" 2>/dev/null)" != "$version" ] || continue
    work=$(mktemp -d)
    (cd "$work" && npm pack --silent "$package@$version" >/dev/null && mv ./*.tgz package.tgz)
    echo "$hash  $work/package.tgz" | sha512sum --quiet --check
    rm -rf "$folder"
    mkdir -p "$folder"
    tar -xzf "$work/package.tgz" -C "$folder" --strip-components=1
    echo "$version" >"$folder/.version"
    rm -rf "$work"
done <scripts/sdks/bundles.txt
