#!/bin/sh
# Bring the browser SDK that the collection port serves to a version of @segment/analytics-next: sh SCRIPT 1.84.3
set -eu
version=${1:?name a version, such as 1.84.3}
folder=$(dirname "$0")/../src/hookline/collect/analytics_next
folder=$(cd "$folder" && pwd)
licences=$folder/../../../../scripts/vendor-licences.js
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
tar xzf "$(npm pack --silent "@segment/analytics-next@$version")"
rm -f "$folder"/*
cp package/LICENSE.MD package/package.json package/dist/umd/standalone.js package/dist/umd/*.bundle.*.js "$folder"
# The bundles have parts of these, and of @segment/tsub, which the package is built with.
npm install --silent --ignore-scripts --omit=optional --no-audit --no-fund --no-save "@segment/analytics-next@$version" @segment/tsub@2
node "$licences" > "$folder/LICENSES-OF-PARTS.txt"
cd "$folder"
sha256sum ./* > SHA256SUMS
echo "Now run tests/unit/collect/test_sdk_files.py: it says whether the hosts in it are still found."
