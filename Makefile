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

# Versions and hashes of everything from outside: requirements/, which `make lock` writes.
PIP_LOCKED := -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
# Where wheels are built, with nothing but what the build needs, as where users install.
BUILDER := $(VENV)/build
BUILDER_READY := $(BUILDER)/ready-$(shell $(PYTHON) tools/stamp.py requirements/build.txt)
# Two stamps: what is installed from outside, and what was built from our sources.
DEPS := $(VENV)/deps-$(shell $(PYTHON) tools/stamp.py requirements/env.txt requirements/build.txt $(JS_TESTS)/package-lock.json)
BUILT := $(VENV)/built-$(JETSPARK_BUILD)-$(shell $(PYTHON) tools/stamp.py src setup.py pyproject.toml requirements/build.txt)

.PHONY: help env demo test test-interpreted check format quick bench torture clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

env: $(BUILT) ## create .venv, build the compiled wheel and install it with everything tests need

# pyspark is published as source only: its build, too, uses what came by hash.
$(DEPS):
	@echo "== environment in $(VENV)"
	@$(PYTHON) tools/environment.py $(VENV)
	@rm -f $(VENV)/deps-* $(VENV)/built-*
	@$(BIN)/python $(PIP_LOCKED) -r requirements/build.txt
	@$(BIN)/python $(PIP_LOCKED) --no-build-isolation -r requirements/env.txt
	@$(BIN)/python tools/npm.py ci --prefix $(JS_TESTS) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(BUILDER_READY):
	@rm -rf $(BUILDER)
	@$(PYTHON) tools/environment.py $(BUILDER)
	@$(BUILDER)/bin/python $(PIP_LOCKED) -r requirements/build.txt
	@touch $@

# A stale build/ or list of files would put modules into the wheel that no longer exist.
$(BUILT): $(DEPS) $(BUILDER_READY)
	@echo "== building jetspark ($(JETSPARK_BUILD))"
	@rm -rf build src/*.egg-info $(VENV)/built-*
	@JETSPARK_BUILD=$(JETSPARK_BUILD) $(BUILDER)/bin/python -m pip wheel --quiet \
	  --no-build-isolation --no-deps --wheel-dir build/wheel .
	@$(BIN)/python -m pip install --quiet --no-deps --force-reinstall build/wheel/jetspark-*.whl
	@$(BIN)/python -m pip --disable-pip-version-check check \
	  || { echo "requirements/ and pyproject.toml differ: run make lock"; exit 1; }
	@$(BIN)/jetspark --version
	@touch $@

.PHONY: screenshots
SHOWN := overview consumer messages-dark entry
screenshots: $(BUILT) ## take the pictures of the dashboard in docs/images, in Chromium
	@rm -rf build/pictures && mkdir -p build/pictures docs/images
	@JETSPARK_SCREENSHOTS=build/pictures $(BIN)/python -m pytest -q -p no:randomly \
	  tests/browser/test_pages.py -k "not nats_server"
	@for each in $(SHOWN); do cp build/pictures/$$each.png docs/images/$$each.png; done

.PHONY: wheel smoke lock coverage
wheel: $(BUILDER_READY) ## a release in dist/: the sdist, and the compiled wheel built from it
	@rm -rf build dist src/*.egg-info
	@JETSPARK_BUILD=compiled $(BUILDER)/bin/python -m build --quiet --no-isolation --outdir dist .
	@ls -l dist

smoke: wheel ## install that release in empty environments, for each supported Python found, and use it
	@$(PYTHON) tools/smoke.py

UV := uv==0.13.7
lock: ## write requirements/ from pyproject.toml: make lock ARGS=--upgrade takes the newest versions
	@$(PYTHON) tools/environment.py $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check $(UV)
	@$(VENV)/lock/bin/python tools/lock.py $(ARGS)

# An archive of Spark's classes: each JVM that the tests start takes half the CPU time with it.
CLASSES := $(VENV)/spark-classes
$(CLASSES): $(DEPS) | $(BUILT)
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

COVERED ?= tests/unit tests/property
coverage: $(DEPS) ## lines and branches that the unit and property tests run: make coverage COVERED=tests/unit/store
	@rm -rf build/coverage && mkdir -p build/coverage
	@PYTHONPATH=src JETSPARK_EXPECT=interpreted $(BIN)/python -m coverage run -m pytest -q -n2 $(COVERED)
	@$(BIN)/python -m coverage combine --quiet
	@PYTHONPATH=src $(BIN)/python -m coverage report >build/coverage/report.txt
	@sed -n -e 1p -e /^TOTAL/p build/coverage/report.txt && echo "by file: build/coverage/report.txt"

.PHONY: docs capture
docs: $(DEPS) ## the documentation site: build/docs/html/index.html, readable without a server
	@$(BIN)/python tools/build_docs.py

capture: env ## docs/capture.svg, a picture of a terminal with real commands, for the README
	@$(BIN)/python tools/capture.py

bench: env ## side by side with nats-server 2.15.1: make bench ARGS="--only publish"
	@$(BIN)/python -m bench.run $(ARGS)

MINUTES ?= 10
torture: env ## long crash, fuzz and fault campaigns: make torture MINUTES=30
	@$(BIN)/python tools/torture.py --minutes $(MINUTES) $(ARGS)

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist demo-output src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
