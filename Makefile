# make try        install torchvet into .venv and check examples/
# make test       the whole test run: ruff, mypy, pytest (installs torch for the tests that need it, if it can)
# make test-all   the tests under every python3.10 ... python3.14 of this machine, without torch
# make bench      recall and false alarms, speed against ruff, real packages; writes bench/RESULTS.md
# make clean      remove what the others made

SHELL := /bin/bash
VENV ?= .venv
TORCH ?= torch==2.13.0
# TORCH_INDEX=https://download.pytorch.org/whl/cpu saves the download of the CUDA libraries
TORCH_INDEX ?=
BIN := $(VENV)/bin
# the first of these that is 3.10 or newer and can make environments; PYTHON=... chooses another
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python3.10; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 \
	&& { echo $$p; break; }; done)
# PIP_ARGS="--no-index --find-links wheels" works without a network
PIP = $(BIN)/python -m pip --disable-pip-version-check install -q $(PIP_ARGS)

.PHONY: try test test-all bench lint pytest clean
.DEFAULT_GOAL := try

try: $(VENV)/.installed
	@$(BIN)/torchvet check examples; code=$$?; test $$code -lt 2 \
	&& echo && echo "That is what torchvet says about the scripts in examples/. Yours: $(BIN)/torchvet check PATH"

# all three run, whatever the first ones say; pytest comes last, so that its closing line is the last line
test: $(VENV)/.installed-test
	@code=0; for run in "ruff check ." mypy "python -m pytest $(PYTEST_ARGS)"; do \
	echo "== $$run"; $(BIN)/$$run || code=1; done; exit $$code

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

pytest: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all:
	@PIP_ARGS='$(PIP_ARGS)' bash scripts/test_all.sh $(PYTEST_ARGS)

bench: $(VENV)/.installed-bench
	$(BIN)/python bench/cases.py
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/corpus.py

clean:
	rm -rf $(VENV)/.installed* .venv-3.* .pytest_cache .mypy_cache .ruff_cache build dist

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'torchvet needs Python 3.10 or newer with venv (python3-venv)'; exit 1; }
	$(PYTHON) -m venv $(VENV)

# an editable install: the package has no build step, so only pyproject.toml makes it stale
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test]'
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)' \
	|| echo 'torch could not be installed: the tests that need it are skipped'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test]' || true
	$(PIP) torch-preflight || echo 'torch-preflight could not be installed: the comparison with it is left out'
	@touch $@
