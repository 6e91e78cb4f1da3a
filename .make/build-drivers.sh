#!/usr/bin/env bash
# Builds the native driver that the Node tests bring along: npm leaves it unbuilt where install
# scripts are off, and downloads nothing here.
set -eu
cd "$(dirname "$0")/../tests/node"
works() { node -e "new (require('better-sqlite3'))(':memory:')" 2>/dev/null; }
if works; then exit 0; fi
echo "building better-sqlite3 for Node.js $(node --version)"
prefix=$(node -p "require('node:path').resolve(process.execPath, '..', '..')")
gyp=$(npm root -g)/npm/node_modules/node-gyp/bin/node-gyp.js
log=../../.build/better-sqlite3.log
if [ -d "$prefix/include/node" ] && [ -e "$gyp" ]; then
    (cd node_modules/better-sqlite3 && node "$gyp" rebuild --release --nodedir="$prefix") >"$log" 2>&1
else
    npm rebuild --foreground-scripts better-sqlite3 >"$log" 2>&1
fi || { tail -n 20 "$log" >&2; exit 1; }
works || { echo "better-sqlite3 was built and does not load; see .build/better-sqlite3.log" >&2; exit 1; }
