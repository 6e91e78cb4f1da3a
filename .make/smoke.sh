#!/usr/bin/env bash
# Installs dist/anarchon-*.whl and dist/anarchon-*.tgz in fresh folders and runs a job with each.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

echo "trying the wheel"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check --no-index "$root"/dist/anarchon-*.whl
(cd "$folder" && "$folder/venv/bin/python" "$root/.make/smoke.py")

echo "trying the npm package"
mkdir "$folder/app"
cd "$folder/app"
npm init -y >/dev/null
npm install --offline --no-audit --no-fund --loglevel=error "$root"/dist/anarchon-*.tgz
cp "$root/.make/smoke.mjs" "$root/.make/smoke.cjs" .
node smoke.mjs
node smoke.cjs
