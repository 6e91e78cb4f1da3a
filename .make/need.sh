#!/usr/bin/env bash
# Checks that the machine has what a command needs, and says how to get it.
set -eu

missing() {
    printf '%s\n  needed: %s\n  to get it: %s\n' "$1" "$2" "$3" >&2
    exit 1
}

case "$1" in
rust)
    command -v cargo >/dev/null || missing "cargo was not found" "Rust 1.94 or later" \
        "rustup (https://rustup.rs), then: rustup toolchain install stable"
    version=$(rustc --version | sed -E 's/^rustc ([0-9]+)\.([0-9]+).*/\1 \2/')
    read -r major minor <<<"$version"
    [ "$major" -gt 1 ] || [ "$minor" -ge 94 ] || missing "rustc is $(rustc --version)" \
        "Rust 1.94 or later" "rustup update stable"
    command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
        missing "no C compiler was found" "cc, for the SQLite that is compiled in" \
            "Debian and Ubuntu: apt-get install gcc; Fedora: dnf install gcc; macOS: xcode-select --install"
    ;;
python)
    python=${2:-python3}
    command -v "$python" >/dev/null || missing "$python was not found" "Python 3.10 or later" \
        "Debian and Ubuntu: apt-get install python3 python3-venv; elsewhere: https://www.python.org; or name one: make PYTHON=/path/to/python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        missing "$python is $("$python" --version)" "Python 3.10 or later" \
            "install one and name it: make PYTHON=python3.12"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        missing "$python cannot make virtual environments" "the modules venv and ensurepip" \
            "Debian and Ubuntu: apt-get install python3-venv"
    ;;
node)
    command -v node >/dev/null || missing "node was not found" "Node 20 or later" \
        "https://nodejs.org, or your system's package nodejs"
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' ||
        missing "node is $(node --version)" "Node 20 or later" "https://nodejs.org"
    command -v npm >/dev/null || missing "npm was not found" "npm, to install the Node tools" \
        "it comes with Node; Debian and Ubuntu: apt-get install npm"
    ;;
*)
    echo "need.sh: unknown need $1; allowed are rust, python and node" >&2
    exit 2
    ;;
esac
