#!/usr/bin/env bash
# Makes `import 'anarchon'` in tests, demo, docs and bench mean the package of this checkout.
set -eu
cd "$(dirname "$0")/.."
mkdir -p node_modules/@types
ln -sfn ../bindings-node node_modules/anarchon
# What the examples of the docs import besides.
ln -sfn ../tests/docs/node_modules/express node_modules/express
ln -sfn ../tests/node/node_modules/better-sqlite3 node_modules/better-sqlite3
ln -sfn ../../tests/node/node_modules/@types/better-sqlite3 node_modules/@types/better-sqlite3
