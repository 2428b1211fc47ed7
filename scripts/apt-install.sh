#!/bin/sh
# Installs Debian packages, as root or through sudo. Usage: scripts/apt-install.sh PACKAGE…
set -eu
command -v apt-get >/dev/null || { echo "please install: $*" >&2; exit 1; }
sudo=
[ "$(id -u)" -eq 0 ] || sudo="sudo"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && exit 0
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
