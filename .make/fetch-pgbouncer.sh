#!/usr/bin/env bash
# Brings PgBouncer, which a test of the PostgreSQL store needs, into .build/debian where the machine
# has none: Debian's package and those of its libraries that are missing, unpacked, not installed.
# Where that cannot be had, it says so and goes on: the test is skipped then, and counted as skipped.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/.build/debian
program=$place/usr/sbin/pgbouncer
libraries=$place/usr/lib/$(uname -m)-linux-gnu
runs() { LD_LIBRARY_PATH="$libraries" "$1" --version >/dev/null 2>&1; }
if command -v pgbouncer >/dev/null || runs "$program"; then exit 0; fi
fail() {
    echo "pgbouncer is not there and cannot be fetched ($1): its tests will be skipped" >&2
    exit 0
}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "this is no Debian"
echo "fetching PgBouncer into .build/debian"
mkdir -p "$place"
cd "$place"
# A fresh machine has no lists yet; they go beside the packages, since nothing is put into it.
lists=(-o "Dir::State::lists=$place/lists" -o "Dir::Cache=$place/cache")
download() {
    apt-get "${lists[@]}" -qq download "$1" >/dev/null 2>>fetch.log ||
        apt-get -qq download "$1" >/dev/null 2>>fetch.log
}
if ! download pgbouncer; then
    mkdir -p lists/partial cache/archives/partial
    apt-get "${lists[@]}" -qq update >/dev/null 2>>fetch.log || fail "see .build/debian/fetch.log"
    download pgbouncer || fail "see .build/debian/fetch.log"
fi
unpack() { for package in ./*.deb; do dpkg-deb -x "$package" . && rm "$package"; done; }
unpack
# Its libraries, where the machine does not have them.
for name in libc-ares2 libevent-2.1-7 libpam0g libssl3 libsystemd0; do
    if runs "$program"; then break; fi
    download "$name" && unpack
done
runs "$program" || fail "a library is missing"
