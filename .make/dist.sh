#!/usr/bin/env bash
# Builds what is published, for this platform, and installs both in fresh folders to try them.
# usage: dist.sh release|dev
set -eu
cd "$(dirname "$0")/.."
profile=$1
make build PROFILE="$profile"

rm -rf dist
mkdir -p dist
cargo_profile=$profile
echo "packing the wheel"
.build/venv/bin/maturin build --quiet --profile "$cargo_profile" \
    --manifest-path bindings-python/Cargo.toml --out dist
echo "packing the npm package"
(cd bindings-node && npm pack --silent --pack-destination ../dist)

.make/smoke.sh
ls -l dist
