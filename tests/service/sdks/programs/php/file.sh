#!/bin/sh
# The file consumer, and then its uploader as cron would run it. send.php has no option for the host: it goes into the
# call of init, as somebody who uses it would write it, in a copy.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LOG_FILE="$folder/analytics.log"
php "$here/program.php"
cp -r "$VENDOR" "$folder/vendor"
send="$folder/vendor/segmentio/analytics-php/send.php"
sed -i "s/['\"]debug['\"] => true/&, 'host' => getenv('HOST'), 'ssl' => getenv('TLS') === '1'/" "$send"
grep -q "getenv('HOST')" "$send"
php -d curl.cainfo="$CURL_CA_BUNDLE" "$send" --secret "$WRITE_KEY" --file "$LOG_FILE"
[ ! -e "$LOG_FILE" ] # sent, and the old file is gone
