# make demo | test | quick | attacks | soak | matrix | interop | fuzz | lint | format | bench | clean
# Each target makes its own virtual environment in .venv when it is missing or
# when pyproject.toml has changed. Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
READY_FOR_BENCH := $(VENV)/.ready-for-bench
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

# Extra arguments for pytest: make test ARGS="-k resume -x"
ARGS ?=
# How long make soak and make fuzz go on
MINUTES ?= 10

.DEFAULT_GOAL := help
.PHONY: help demo test quick attacks soak matrix interop fuzz lint format bench clean

help:
	@echo "make demo    train, evaluate, export, serve, and ask the server"
	@echo "make test    run the tests (ARGS=... is passed to pytest)"
	@echo "make quick   those of them that take about three minutes, for while you work"
	@echo "make matrix  the tests on every Python and TensorFlow that is promised and to be had here"
	@echo "make attacks attack the server on every front, and with workers"
	@echo "make soak    kill random programs, compare made-up ones, attack a server, for MINUTES=$(MINUTES)"
	@echo "make interop install other gRPC clients, and try the server with all of them"
	@echo "make fuzz    damaged input for the server, for MINUTES=$(MINUTES)"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make format  let ruff rewrite what it can"
	@echo "make bench   measure speed"
	@echo "make clean   remove .venv and all caches"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or sys.exit("Estimand needs Python 3.11, 3.12 or 3.13; $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.11 ..." % v)'
	@echo "Setting up $(VENV) (once; TensorFlow is a large download) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(READY_FOR_BENCH): $(READY)
	@$(PIP_INSTALL) --editable '.[dev,bench]'
	@touch $@

demo: $(READY)
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) examples/demo.py

test: $(READY)
	@$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# No other processes, no comparison with the original, no long runs.
quick: $(READY)
	@$(PY) -m pytest -n 3 --dist loadfile tests/core tests/engine tests/hooks tests/heads \
	  tests/features tests/inputs tests/estimator/lifecycle $(ARGS)

# MATRIX="--only 3.13" for some of it, "--all" for every pair; ARGS as above.
matrix:
	@$(PYTHON) tests/matrix.py $(MATRIX) -- $(ARGS)

# gRPC for Node, C++, Go and Java, nghttp2 and curl; what cannot be installed is said and skipped.
interop: $(READY)
	@$(PY) tests/serving/interop/install.py .interop
	@ESTIMAND_INTEROP=all $(PY) -m pytest -rs tests/serving/interop $(ARGS)

# make test attacks the default front only: a server for each front takes its time.
attacks: $(READY)
	@ESTIMAND_ATTACKS=all $(PY) -m pytest -n 3 --dist loadfile tests/serving/attacks $(ARGS)

# SOAK="--only server" for some of it: kills, programs, server.
soak: $(READY)
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) -m tests.soak --minutes $(MINUTES) $(SOAK)

# FUZZ="--only http2 --mode inside" for some of it; "--keep" adds what was found to the corpus.
fuzz: $(READY)
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) -m tests.serving.fuzz.run --minutes=$(MINUTES) $(FUZZ)

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(READY_FOR_BENCH)
	@$(PY) bench/run.py

clean:
	rm -rf $(VENV) .interop .matrix .fuzz .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
