# jetspark: every verb a person or CI needs. `make help` lists them.
#
#   make demo    environment + server + Spark pipeline, end to end
#   make test    environment + all tests
#
# Nothing but Python 3.11+, a C compiler and make has to be there before. Without a compiler the
# interpreted modules are installed (slower, and it says so); without Java, pip's JRE is used.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JS_TESTS := tests/interop/js

# compiled: fail loudly; auto: fall back to the interpreted modules (only where no compiler is).
HAVE_CC := $(shell command -v $(firstword $(CC)) 2>/dev/null)
JETSPARK_BUILD ?= $(if $(HAVE_CC),compiled,auto)

# Two stamps: what is installed from outside, and what was built from our sources.
DEPS := $(VENV)/deps-$(shell $(PYTHON) tools/stamp.py pyproject.toml $(JS_TESTS)/package-lock.json)
BUILT := $(VENV)/built-$(JETSPARK_BUILD)-$(shell $(PYTHON) tools/stamp.py src setup.py pyproject.toml)

.PHONY: help env demo test test-interpreted check format quick bench torture clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

env: $(BUILT) ## create .venv, build the compiled wheel and install it with everything tests need

# The wheel comes first: its metadata says what to install.
$(DEPS):
	@echo "== environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/deps-* $(VENV)/built-*
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@JETSPARK_BUILD=interpreted $(MAKE) --no-print-directory wheel
	@$(BIN)/python -m pip install --quiet "$$(ls build/wheel/jetspark-*.whl)[all,demo,dev]"
	@$(BIN)/python tools/npm.py ci --prefix $(JS_TESTS) --no-audit --no-fund --silent
	@touch $@

$(BUILT): $(DEPS)
	@echo "== building jetspark ($(JETSPARK_BUILD))"
	@rm -f $(VENV)/built-*
	@JETSPARK_BUILD=$(JETSPARK_BUILD) $(MAKE) --no-print-directory wheel
	@$(BIN)/python -m pip install --quiet --no-deps --force-reinstall build/wheel/jetspark-*.whl
	@$(BIN)/jetspark --version
	@touch $@

.PHONY: wheel
wheel: # a stale build/ would put modules into the wheel that no longer exist
	@rm -rf build
	@$(PYTHON) -m venv build/env # empty, as where users install: the build must not lean on ours
	@build/env/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .

# An archive of Spark's classes: each JVM that the tests start takes half the CPU time with it.
CLASSES := $(VENV)/spark-classes
$(CLASSES): $(DEPS)
	@echo "== archive of Spark's classes for the tests"
	@$(BIN)/python -m tests.support.spark_home
	@touch $@

demo: env ## a million events through Spark; server and driver are killed meanwhile; nothing is lost
	@$(BIN)/python -m demo

# A failed run prints its seed; SEED=n repeats its order and its random choices.
SEED_ARGUMENT := $(if $(SEED),--seed $(SEED))

test: env $(CLASSES) ## everything: static checks, compiled tests, the lower layers interpreted
	@$(BIN)/python tools/run_tests.py $(SEED_ARGUMENT)

test-interpreted: env $(CLASSES) ## the whole suite on the interpreted modules
	@$(BIN)/python tools/run_tests.py --interpreted $(SEED_ARGUMENT)

check: $(DEPS) ## format, lint, types (mypy, pyright), layers, tidiness
	@$(BIN)/python tools/run_tests.py --only static

format: $(DEPS) ## let ruff rewrite what it can
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

quick: $(DEPS) ## interpreted tests while editing: make quick ARGS=tests/unit/store
	@PYTHONPATH=src JETSPARK_EXPECT=interpreted $(BIN)/python -m pytest -q $(ARGS)

bench: env ## side by side with nats-server 2.15.1: make bench ARGS="--only publish"
	@$(BIN)/python -m bench.run $(ARGS)

MINUTES ?= 10
torture: env ## long crash, fuzz and fault campaigns: make torture MINUTES=30
	@$(BIN)/python tools/torture.py --minutes $(MINUTES)

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist demo-output src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
