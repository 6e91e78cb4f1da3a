#!/usr/bin/env bash
# Compiles the TypeScript of the npm package when it is newer than what was compiled.
set -eu
cd "$(dirname "$0")/../bindings-node"
stamp=../.build/ts.stamp
if [ -e "$stamp" ] && [ -d dist ] &&
    [ -z "$(find ts package.json tsconfig*.json -newer "$stamp" -type f -print -quit)" ]; then
    exit 0
fi
echo "compiling the TypeScript of bindings-node"
npm run --silent build
touch "$stamp"
