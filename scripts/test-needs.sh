#!/bin/sh
# What the tests need beyond .venv: a browser, Node.js, strace, faketime, ps, rsync, systemd, PostgreSQL, PgBouncer, nginx, HAProxy, Apache,
# Caddy, Go, PHP, an S3-compatible server, and the real SDKs and Kafka in build/. Installs what is missing.
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || missing="$missing $2"
}
# The shell has no windows, and shows the same pages with little more than half the work. Not every system has it.
command -v chromium-headless-shell >/dev/null || { command -v apt-get >/dev/null && sh scripts/apt-install.sh chromium-headless-shell; } ||
    need chromium chromium
need node nodejs
need npm npm
need strace strace
need faketime faketime
need ps procps
need rsync rsync
need git git
# The unit is run by systemd itself, in namespaces of its own, with an environment made by the machine's Python.
[ -x /lib/systemd/systemd ] || need systemd systemd
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
[ -x /usr/sbin/pgbouncer ] || need pgbouncer pgbouncer
[ -x /usr/sbin/nginx ] || need nginx nginx
[ -x /usr/sbin/haproxy ] || need haproxy haproxy
[ -x /usr/sbin/apache2 ] || need apache2 apache2
need caddy caddy
need go golang-go
need javac default-jdk-headless
need mvn maven
# Debian keeps the server out of PATH.
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || need postgres postgresql
# shellcheck disable=SC2086
[ -z "$missing" ] || sh scripts/apt-install.sh $missing

if ! command -v phpcs >/dev/null || ! command -v phpunit >/dev/null; then
    sh scripts/apt-install.sh php-cli php-curl php-mbstring php-xml phpunit php-codesniffer ||
        echo "PHPUnit and phpcs cannot be had here: the PHP client library is not tested" >&2
fi
# The frameworks of the library's examples, one by one: not every system has both.
for framework in symfony-framework-bundle:Symfony/Bundle/FrameworkBundle laravel-framework:Illuminate; do
    php -r 'exit(stream_resolve_include_path("$argv[1]/autoload.php") === false ? 1 : 0);' "${framework#*:}" 2>/dev/null ||
        sh scripts/apt-install.sh "php-${framework%:*}" ||
        echo "php-${framework%:*} cannot be had here: its example is not tested" >&2
done

# What follows waits for the network most of the time, so it goes side by side. Only one of these installs packages of the
# system, of which no more than one can be installed at a time.
mkdir -p build
running=
beside() { # COMMAND…
    ("$@") &
    running="$running $!"
}

uv=uv
uv --version >/dev/null 2>&1 || uv=.tools/bin/uv

# As locked and checked by hash. Not `npm ci`: it insists on optional packages of other platforms, which not every registry
# carries.
node_sdks() {
    if ! cmp -s scripts/sdks/package-lock.json build/sdks/package-lock.json 2>/dev/null || [ ! -e build/sdks/.ready ]; then
        rm -rf build/sdks
        mkdir -p build/sdks
        cp scripts/sdks/package.json scripts/sdks/package-lock.json build/sdks/
        (cd build/sdks && npm install --silent --no-save --omit=optional --no-audit --no-fund --ignore-scripts && touch .ready)
    fi
    sh scripts/sdk-bundles.sh
}
# In an environment of their own, so that their old dependencies do not meet ours.
python_sdks() {
    [ ! -e build/sdk-venv/.ready ] || [ scripts/sdks/requirements.lock -nt build/sdk-venv/.ready ] || return 0
    rm -rf build/sdk-venv
    UV_PYTHON_DOWNLOADS=never "$uv" venv --quiet --python .venv/bin/python build/sdk-venv
    "$uv" pip install --quiet --python build/sdk-venv/bin/python --compile-bytecode --require-hashes -r scripts/sdks/requirements.lock
    touch build/sdk-venv/.ready
}
# A Go that is new enough for the Go client library, and what it builds. Where none can be had, the library is left out and
# the test run says so.
go_programs() {
    sh scripts/go.sh
    sh scripts/s3-server.sh
}
# SDKs of Go, Java, PHP and Ruby, then Kafka brokers: two Mavens at once would write the same files.
programs_and_brokers() {
    sh scripts/sdk-programs.sh
    sh scripts/kafka-jars.sh
}
# Each process of the first run would rewrite the assertions of all tests.
rewritten_assertions() {
    [ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || [ -d tests/__pycache__ ] || .venv/bin/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true
}
beside node_sdks
beside python_sdks
beside sh scripts/client-pythons.sh
beside go_programs
beside programs_and_brokers
beside rewritten_assertions
trap 'kill $running 2>/dev/null' INT TERM
for each in $running; do
    wait "$each" || failed=1
done
exit "${failed:-0}"
