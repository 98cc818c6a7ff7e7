# Every target sets itself up: a fresh clone needs Python 3.11 to 3.14 and make, nothing else.

# The first of these that runs and is new enough; `make PYTHON=/path/to/python` overrides it.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# `make test ARGS='-k torch -x'`, `make conformance ARGS=...`: handed on.
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run cluster test check fix bench programs conformance sdk e2e cost clean check-lint check-format check-mypy \
	check-pyright check-imports check-dockerfile check-docs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## Serve examples/cluster over TLS and send an example TrainJob through it
	@$(BIN)/python -m scripts.demo $(ARGS)

cluster: $(VENV)/.installed ## Run a real control plane with Stationmaster in it (compiled once, a quarter of an hour)
	@$(BIN)/python -m tests.e2e.cluster $(ARGS)

test: $(VENV)/.installed ## Run all tests, with branch coverage
	$(BIN)/python -m pytest -n auto --cov --cov-report=term $(ARGS)

# Each is a target, so that `make -k check` tells all that is wrong.
check: check-lint check-format check-mypy check-pyright check-imports check-dockerfile check-docs ## Run the linters, both type checkers and the checks of imports and docs

check-lint: $(VENV)/.installed-check
	$(BIN)/ruff check .

check-format: $(VENV)/.installed-check
	$(BIN)/ruff format --check .

check-mypy: $(VENV)/.installed-check
	$(BIN)/mypy

check-pyright: $(VENV)/.installed-check
	$(BIN)/pyright

check-imports: $(VENV)/.installed-check
	$(BIN)/lint-imports

check-dockerfile: $(VENV)/.installed-check
	$(BIN)/hadolint Dockerfile

check-docs: $(VENV)/.installed-check
	$(BIN)/python -m scripts.check_docs

fix: $(VENV)/.installed-check ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed ## Measure the server against a bare handler, and the start of the program
	$(BIN)/python -m benchmarks $(ARGS)

programs: $(VENV)/.installed ## Compile or fetch what tests compare with: Kubernetes, controllers, oracles, helm, the SDKs (once)
	$(BIN)/python -m tests.e2e.controlplane build
	$(BIN)/python -m tests.conformance.build
	$(BIN)/python -m tests.deploy.tools
	$(BIN)/python -m tests.sdk.environments

conformance: $(VENV)/.installed ## Compare with the Trainer's own code (fetches Go where there is none)
	$(BIN)/python -m tests.conformance $(ARGS)

sdk: $(VENV)/.installed ## Compare policies with the options of three unmodified SDKs (installs them once; minutes)
	$(BIN)/python -m tests.sdk.environments
	STATIONMASTER_SDK=1 $(BIN)/python -m pytest tests/sdk $(ARGS)

# Most of its time is waiting, for what others do in theirs.
e2e: $(VENV)/.installed ## Run against a real kube-apiserver, Trainer, JobSet and Kueue (compiled once)
	$(BIN)/python -m tests.e2e.controlplane build
	$(BIN)/python -m pytest tests/e2e --e2e --ignore=tests/e2e/test_cost.py -n 2 --dist loadfile $(ARGS)

cost: $(VENV)/.installed ## Measure what users of a real API server pay, with nothing beside (ARGS=--cost=full)
	$(BIN)/python -m tests.e2e.controlplane build
	$(BIN)/python -m pytest tests/e2e/test_cost.py --e2e $(ARGS)

clean: ## Remove all that the targets made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 to 3.14 found: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "==> making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { echo "on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "==> installing stationmaster and its test tools (a minute, once)"
	@$(BIN)/python -m pip install --quiet -e '.[test,sdk]'
	@touch $@

$(VENV)/.installed-check: pyproject.toml $(VENV)/.installed
	@echo "==> installing the linters and type checkers (a minute, once)"
	@$(BIN)/python -m pip install --quiet -e '.[check]'
	@touch $@
