# Everything a developer or a machine runs. Needs Python 3.11 or newer, make and git; the rest comes from the lock files.
# `make help` lists the targets; docs/decisions/0016-lock-files.md says how .venv is made and why.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` picks another.
ifndef PYTHON
PYTHON := $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$candidate; exit; fi; \
	done; echo python3)
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
FAST := $(addprefix tests/,engine jobs policies scenarios test_project.py test_tidy.py)
COMPARED := $(addprefix tests/,kubernetes e2e stories apiserver/pod_streams/test_kubectl.py)
BESIDE := $(addprefix tests/kubernetes/test_,feed_contract.py hooks.py installed.py own_definitions.py own_hooked.py \
	take_over.py) tests/stories/test_real_cluster.py
OLDER := 1.35 1.34
UV := uv==0.13.7
LOCK_VENV := .lock-venv
LOCK = $(LOCK_VENV)/bin/uv --cache-dir $(LOCK_VENV)/cache pip compile --quiet --python $(LOCK_VENV)/bin/python \
	--universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) pyproject.toml

.PHONY: help
help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The environment ---------------------------------------------------------------------------------------------------
# Two stamps: everything from the lock, anew when the lock changes; then the package itself, when its metadata changes.

define check-python
	@$(PYTHON) -c 'pass' 2>/dev/null || { \
		echo "Muster needs Python 3.11 or newer, and '$(PYTHON)' does not run. Install it, or name it: make PYTHON=python3.12 …" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Muster needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=python3.12 …" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: it comes without venv or ensurepip." >&2; \
		echo "On Debian and Ubuntu install the package python3-venv, then run make again." >&2; \
		exit 1; }
endef

$(VENV)/.locked: requirements-dev.txt
	$(check-python)
	@echo "Setting up $(VENV) from requirements-dev.txt …"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements-dev.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(PIP) install --quiet --no-index --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q muster  # so that the first command starts as fast as the second
	@touch $@

.PHONY: install
install: $(VENV)/.installed  ## Set up .venv from the lock; gives .venv/bin/muster.

.PHONY: lock
lock:  ## Write the lock files anew from pyproject.toml; UPGRADE=1 takes newer versions.
	$(check-python)
	@$(PYTHON) -m venv --clear $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(UV)
	$(LOCK) --output-file requirements.txt
	$(LOCK) --extra node --constraint requirements.txt --output-file requirements-node.txt
	$(LOCK) --extra dev --extra node --constraint requirements-node.txt --output-file requirements-dev.txt
	@rm -rf $(LOCK_VENV)

# Running -----------------------------------------------------------------------------------------------------------

.PHONY: up
up: install  ## Run Muster: a Kubernetes API on this machine, with its state in .state; UP="--port 7443" gives options.
	$(BIN)/muster up --data .state $(UP)

.PHONY: limiter
limiter:  ## Build the library that keeps containers to their share of a card; needs a C compiler.
	@$(MAKE) -s -C limiter BUILD=$(CURDIR)/build/limiter
	@echo build/limiter/libmuster-limiter.so

# Checking ----------------------------------------------------------------------------------------------------------

.PHONY: check
check: install  ## Before each commit: format, lint, types, layers and the fast tests, in under a minute.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -q -n $(WORKERS) --dist worksteal -m "not prove" $(FAST)

.PHONY: test
test: install  ## The whole test suite; the long proofs run a fraction of their cases.
	$(PYTEST) -n $(WORKERS) --dist worksteal

.PHONY: test-kubernetes
test-kubernetes: install  ## Compare with a real Kubernetes; needs Go and openssl, and builds it the first time.
	@if $(BIN)/python -m tests.kubernetes.build; then \
		MUSTER_KUBERNETES=1 $(PYTEST) -n $(WORKERS) --dist worksteal $(COMPARED); \
	else echo "SKIPPED: there is no real Kubernetes to compare with here, for the reason above." >&2; fi

.PHONY: prove
prove: install  ## The long proofs with all their cases.
	MUSTER_PROVE=full $(PYTEST) -n $(WORKERS) --dist worksteal -m prove
	@$(MAKE) prove-kubernetes

.PHONY: prove-kubernetes
prove-kubernetes: install  ## Run Muster beside each Kubernetes that it is for; building each takes a quarter of an hour.
	@if $(BIN)/python -m tests.kubernetes.build; then \
		MUSTER_KUBERNETES=1 MUSTER_PROVE=full $(PYTEST) -n $(WORKERS) --dist worksteal $(BESIDE) || exit 1; \
		for version in $(OLDER); do \
			echo "Kubernetes $$version"; \
			MUSTER_KUBERNETES=$$version $(PYTEST) -n $(WORKERS) --dist worksteal $(BESIDE) || exit 1; \
		done; \
	else echo "SKIPPED: there is no real Kubernetes to run beside here, for the reason above." >&2; fi

.PHONY: dst
dst: install  ## Run a cluster in simulated time through storms of faults: make dst SEEDS=100, or SEED=17 for one of them.
	@$(BIN)/python -m tests.dst $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100) --workers $(WORKERS))

.PHONY: conformance
conformance: install  ## Run the conformance cases of a folder: make conformance DIR=path/to/cases.
	@test -n "$(DIR)" || { echo "Say which cases to run: make conformance DIR=path/to/cases" >&2; exit 2; }
	$(BIN)/python -m tests.conformance $(DIR)

.PHONY: bench
bench: install  ## Print the figures that the benchmarks measure.
	@if [ -d bench ]; then $(BIN)/python -m bench; else echo "There are no benchmarks yet."; fi

.PHONY: openb
openb: install  ## Replay a public trace of shared cards: make openb POLICY=fgd SEED=42; the allocated percentage comes last.
	@$(BIN)/python -m bench.openb --policy $(or $(POLICY),fgd) --seed $(or $(SEED),42)

.PHONY: format
format: install  ## Format the code and mend what ruff can mend.
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: clean
clean:  ## Remove .venv and everything the tools left behind.
	rm -rf $(VENV) $(LOCK_VENV) build dist htmlcov .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
