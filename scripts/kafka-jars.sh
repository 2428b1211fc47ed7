#!/bin/sh
# A Kafka broker for the tests, in build/kafka: the jars that tests/kafka/pom.xml names, each as jars.sha256 has it, and a
# Java runtime where there is none. Nothing is fetched again until one of the two changes.
set -eu
cd "$(dirname "$0")/.."
pom=tests/kafka/pom.xml
sums=tests/kafka/jars.sha256

fail() {
    echo "kafka: $*" >&2
    exit 1
}

command -v java >/dev/null || sh scripts/apt-install.sh default-jre-headless || fail "no Java runtime could be installed"
java_major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
[ "${java_major:-0}" -ge 17 ] || fail "a broker needs Java 17 or newer, and java is ${java_major:-of an unknown version}"

wanted=$(cat $pom $sums | sha256sum)
[ "$wanted" != "$(cat build/kafka/.made-of 2>/dev/null)" ] || exit 0
command -v mvn >/dev/null || sh scripts/apt-install.sh maven || fail "Maven, which fetches the jars, could not be installed"
rm -rf build/kafka
mvn -q -B -ntp -C -Dstyle.color=never -f $pom \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/build/kafka" || fail "the jars of $pom could not be had; Maven says why above"
(cd build/kafka && sha256sum --quiet -c ../../$sums) || fail "a jar is not the one that $sums names"
echo "$wanted" > build/kafka/.made-of
