#!/usr/bin/env bash
# Builds what is published, for this platform, and installs both in fresh folders to try them.
# usage: dist.sh release|dev
set -eu
cd "$(dirname "$0")/.."
make build PROFILE="$1"

rm -rf dist
mkdir -p dist
.build/venv/bin/python .make/wheel.py dist
# npm packs the licences of the folder that it is in.
cp LICENSE-APACHE LICENSE-MIT bindings-node/
trap 'rm -f bindings-node/LICENSE-APACHE bindings-node/LICENSE-MIT' EXIT
(cd bindings-node && npm pack --silent --pack-destination ../dist)

.make/smoke.sh
ls -l dist
