#!/usr/bin/env bash
# Makes .build/mysql/mysqld, a MySQL server for the tests of that store: the machine's own where it
# has one that is not MariaDB, else Debian's. Debian has it in its development branch alone, so it
# comes with its own C library and all else that it needs, unpacked, not installed.
# Where it cannot be had, this says so and goes on: the tests are skipped then, and counted as skipped.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/.build/mysql
program=$place/mysqld
libraries=$place/usr/lib/$(uname -m)-linux-gnu
runs() { "$1" --no-defaults --version 2>/dev/null | grep -v MariaDB | grep -q "Ver [89]"; }
if runs "$program"; then exit 0; fi
mkdir -p "$place"
fail() {
    rm -f "$program"
    echo "MySQL is not there and cannot be fetched ($1): its tests will be skipped" >&2
    exit 0
}
# start WORD...: writes the program, which starts the server so.
start() {
    printf '#!/usr/bin/env bash\nexec %s "$@"\n' "$*" >"$program"
    chmod +x "$program"
}
if runs mysqld; then
    # --no-defaults is to be the first word.
    start mysqld --no-defaults
    exit 0
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "this is no Debian"
echo "fetching MySQL into .build/mysql"
cd "$place"
mkdir -p lists/partial cache/archives/partial preferences.d
# Nothing counts as installed, so that what it needs comes too.
: >status
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >sources.list
cat >apt.conf <<END
Dir::State "$place";
Dir::State::status "$place/status";
Dir::Cache "$place/cache";
Dir::Etc::sourcelist "$place/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "$place/preferences.d";
Acquire::Languages "none";
// A mirror that stands still is old, and signed all the same.
Acquire::Check-Valid-Until "false";
APT::Install-Recommends "false";
END
export APT_CONFIG=$place/apt.conf
apt-get -qq update >fetch.log 2>&1 || fail "see .build/mysql/fetch.log"
apt-get -qq -y --download-only install mysql-server-core >>fetch.log 2>&1 || fail "see .build/mysql/fetch.log"
for package in cache/archives/*.deb; do
    # Perl is for scripts of the package.
    case $package in */perl*) continue ;; esac
    dpkg-deb -x "$package" .
done
rm -rf cache lists usr/share/doc usr/share/man
loader=$(echo "$libraries"/ld-linux-*.so.*)
start "$loader" --library-path "$libraries:$libraries/mysql:$libraries/mysql/private" \
    "$place/usr/sbin/mysqld" --no-defaults --basedir="$place/usr" \
    --lc-messages-dir="$place/usr/share/mysql" --character-sets-dir="$place/usr/share/mysql/charsets"
runs "$program" || fail "a library is missing"
