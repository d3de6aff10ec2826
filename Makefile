# SPDX-License-Identifier: Apache-2.0
# Needs Python 3.11 with pip, make and, for the compiled engine, a C++17 compiler. Everything else is installed into .venv.

PYTHON ?= $(shell for p in python3.11 python3 python; do "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PINS := pyproject.toml constraints.txt
# Test processes. Two fit a small machine; kernels are built in parallel inside each of them.
WORKERS ?= 2
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all bench-compile clean compiler-note

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: $(VENV)/.demo compiler-note ## fuse a real sentence-embedding model, verify it, run it on sentences
	$(BIN)/python -m gaf.tools.demo

test: $(VENV)/.test compiler-note ## the test suite (minutes)
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-all: $(VENV)/.test compiler-note ## the test suite with its slow tests
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n $(WORKERS) -m "" $(PYTEST_ARGS)

bench-compile: $(VENV)/.demo compiler-note ## seconds from ONNX file to C++, for three sizes
	$(BIN)/python -m benchmarks.compile

clean: ## remove the virtual environment and everything generated in this folder
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .hypothesis
	find gaf graph_autofusion tests -name __pycache__ -type d -prune -exec rm -rf {} +

compiler-note:
	@for c in $(CXX) g++ clang++ c++; do command -v $$c >/dev/null 2>&1 && exit 0; done; \
	echo "gaf: no C++ compiler found: kernels run on the Python engine, which is slower; install g++ to compile them."

# One stamp a set of extras; a stamp is older than the pins when they changed, and then pip runs again.
$(VENV)/.demo: EXTRAS := demo
$(VENV)/.test: EXTRAS := test,demo
$(VENV)/.demo $(VENV)/.test: $(BIN)/python $(PINS)
	@echo "gaf: installing pinned dependencies ($(EXTRAS)) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

# Debian's Python comes without ensurepip unless python3-venv is installed: its own pip then installs one.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "gaf: needs Python 3.11 or newer: install it, or run 'make PYTHON=/path/to/python3.11 ...'"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) \
	  && $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check pip; } \
	  || { rm -rf $(VENV); echo "gaf: $(PYTHON) can't make a virtual environment: install its venv or pip package"; exit 1; }
