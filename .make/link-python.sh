#!/usr/bin/env bash
# Makes `import anarchon` in .build/venv mean the package of this checkout.
set -eu
cd "$(dirname "$0")/.."
site=$(.build/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD/bindings-python/python" >"$site/anarchon-checkout.pth"
