#!/usr/bin/env bash
# Makes `import 'anarchon'` in tests, demo, docs and bench mean the package of this checkout.
set -eu
cd "$(dirname "$0")/.."
mkdir -p node_modules
ln -sfn ../bindings-node node_modules/anarchon
# The compiler and the type definitions for the examples of the docs.
for name in typescript @types; do
    [ ! -e "bindings-node/node_modules/$name" ] || ln -sfn "../bindings-node/node_modules/$name" "node_modules/$name"
done
