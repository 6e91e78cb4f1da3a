#!/usr/bin/env bash
# Builds the Rust workspace once and puts the native part of each binding into its package.
# usage: build-native.sh dev|release
set -eu
cd "$(dirname "$0")/.."
case "$1" in
dev) flags=() folder=debug ;;
release) flags=(--release) folder=release ;;
*)
    echo "PROFILE is $1; allowed are dev and release" >&2
    exit 2
    ;;
esac
case "$(uname -s)" in
Darwin) ending=dylib ;;
*) ending=so ;;
esac
target=${CARGO_TARGET_DIR:-target}
echo "building the native part ($1)"
cargo build --quiet --workspace "${flags[@]}"

# Only what changed is put in place, by rename: a running process keeps the file that it loaded.
place() {
    if ! cmp -s "$1" "$2"; then
        mkdir -p "$(dirname "$2")"
        cp "$1" "$2.new"
        mv "$2.new" "$2"
    fi
}
place "$target/$folder/lib_anarchon.$ending" bindings-python/python/anarchon/_anarchon.abi3.so
place "$target/$folder/libanarchon_node.$ending" bindings-node/native/anarchon.node
