#!/bin/sh
# Installs Debian packages, as root or through sudo. Usage: scripts/apt-install.sh PACKAGE…
set -eu
command -v apt-get >/dev/null || { echo "please install: $*" >&2; exit 1; }
sudo=
[ "$(id -u)" -eq 0 ] || sudo="sudo"
# Said before sudo asks for a password.
echo "Installing with apt-get: $*" >&2
export DEBIAN_FRONTEND=noninteractive
# Nothing that is installed is started: the tests start their own, and ports stay free. One that forbids it already stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
    trap '$sudo rm -f "$policy"' EXIT
fi
$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && exit 0
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
