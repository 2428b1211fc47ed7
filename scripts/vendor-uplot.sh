#!/bin/sh
# Bring the library that draws the charts of the pages to a version of uplot: sh SCRIPT 1.6.32
set -eu
version=${1:?name a version, such as 1.6.32}
folder=$(dirname "$0")/../src/hookline/web/static/uplot
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
tar xzf "$(npm pack --silent "uplot@$version")"
rm -f "$folder"/*
cp package/LICENSE package/package.json package/dist/uPlot.iife.min.js package/dist/uPlot.min.css "$folder"
cd "$folder"
sha256sum ./* > SHA256SUMS
