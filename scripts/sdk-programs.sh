#!/bin/sh
# The SDKs of Go, Java, PHP and Ruby for the service tests, in build/, each with the toolchain it needs. What a program is
# made of lies beside it, with its lock; nothing is made again until that changes.
set -eu
cd "$(dirname "$0")/.."

install() { # COMMAND PACKAGE…
    command -v "$1" >/dev/null && return
    shift
    sh scripts/apt-install.sh "$@"
}
install go golang-go
install javac default-jdk-headless
install mvn maven

programs=tests/service/sdks/programs
made_of() { # FILE…: what something in build/ was made of
    cat "$@" | sha256sum
}
is_made() { # FOLDER FILE…
    folder=$1
    shift
    [ "$(made_of "$@")" = "$(cat "$folder/.made-of" 2>/dev/null)" ]
}
made() { # FOLDER FILE…
    folder=$1
    shift
    made_of "$@" > "$folder/.made-of"
}
# Go, as go.sum has it.
go=$(find $programs/go -type f | sort)
# shellcheck disable=SC2086
if ! is_made build/sdk-go $go; then
    rm -rf build/sdk-go
    mkdir -p build/sdk-go
    to="$PWD/build/sdk-go/"
    (cd $programs/go && go build -mod=readonly -o "$to" ./...)
    made build/sdk-go $go
fi
# Java, as jars.sha256 has it.
for of in segment rudder; do
    java="$programs/java/$of/pom.xml $programs/java/$of/Program.java $programs/java/$of/jars.sha256"
    # shellcheck disable=SC2086
    ! is_made build/sdk-java/$of $java || continue
    rm -rf build/sdk-java/$of
    to="$PWD/build/sdk-java/$of"
    mvn -q -B -ntp -C -Dstyle.color=never -f $programs/java/$of/pom.xml \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$to"
    (cd build/sdk-java/$of && sha256sum --quiet -c ../../../$programs/java/$of/jars.sha256)
    javac -d build/sdk-java/$of -cp "build/sdk-java/$of/*" $programs/java/$of/Program.java
    # shellcheck disable=SC2086
    made build/sdk-java/$of $java
done

# PHP and Ruby, where their registries can be reached. Where not, the tests play their recorded requests.
reached() { # URL
    .venv/bin/python -c "import urllib.request; urllib.request.urlopen('$1', timeout=5)" 2>/dev/null ||
        { echo "$1 cannot be reached from here: its SDK is tested with its recorded requests" >&2; false; }
}
for of in 2 3; do
    php="$programs/php/$of/composer.json $programs/php/$of/composer.lock"
    # shellcheck disable=SC2086
    ! is_made build/sdk-php/$of $php || continue
    reached https://repo.packagist.org/packages.json || break
    install composer composer php-cli php-curl unzip
    rm -rf build/sdk-php/$of
    mkdir -p build/sdk-php/$of
    # shellcheck disable=SC2086
    cp $php build/sdk-php/$of/
    (cd build/sdk-php/$of && composer install --quiet --no-interaction --no-dev)
    # shellcheck disable=SC2086
    made build/sdk-php/$of $php
done
if ! is_made build/sdk-ruby $programs/ruby/Gemfile && reached https://rubygems.org/; then
    install gem ruby
    rm -rf build/sdk-ruby
    # shellcheck disable=SC2046
    gem install --silent --no-document --install-dir build/sdk-ruby \
        $(sed -n 's/^gem "\(.*\)", "\(.*\)"$/\1 --version \2/p' $programs/ruby/Gemfile)
    made build/sdk-ruby $programs/ruby/Gemfile
fi
