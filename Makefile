# make demo | test | quick | full | attacks | soak | matrix | interop | corpus | extras | fuzz | lint | format | docs | docs-write | pictures | bench | clean
# Each target makes its own virtual environment in .venv when it is missing or
# when pyproject.toml has changed. Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
READY_FOR_BENCH := $(VENV)/.ready-for-bench
# What Python has compiled is kept for the next process: the tests start hundreds, and three of
# them collect all tests.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest
VENV_DOCS := .venv-docs
READY_FOR_DOCS := $(VENV_DOCS)/.ready
VENV_EXTRAS := .venv-extras
READY_FOR_EXTRAS := $(VENV_EXTRAS)/.ready
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

# Extra arguments for pytest: make test ARGS="-k resume -x"
ARGS ?=
# How long make soak and make fuzz go on
MINUTES ?= 10

.DEFAULT_GOAL := help
.PHONY: help demo test quick full attacks soak matrix interop corpus extras extras-install fuzz lint format docs docs-write pictures bench clean

help:
	@echo "make demo    train, evaluate, export, serve, and ask the server"
	@echo "make test    run the tests (ARGS=... is passed to pytest)"
	@echo "make quick   those of them that take about three minutes, for while you work"
	@echo "make full    all tests, also the many alike of which make test takes some"
	@echo "make matrix  the tests on every Python and TensorFlow that is promised and to be had here"
	@echo "make attacks attack the server on every front, and with workers"
	@echo "make soak    kill random programs, compare made-up ones, attack a server, for MINUTES=$(MINUTES)"
	@echo "make interop install other gRPC clients, and try the server with all of them"
	@echo "make corpus  install published packages, and run their Estimator code"
	@echo "make extras  install MLflow, Weights & Biases, Optuna, shap, Beam and Ray, and test what uses them"
	@echo "make fuzz    damaged input for the server, for MINUTES=$(MINUTES)"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make format  let ruff rewrite what it can"
	@echo "make docs    build the documentation site in site/, with warnings as errors"
	@echo "make docs-write  write anew what is generated in docs/: API pages, old names, drawings, notebooks"
	@echo "make pictures    take the pictures of README.md anew, from real runs; needs Chromium"
	@echo "make bench   measure speed"
	@echo "make clean   remove the virtual environments, the site and all caches"

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
	@$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# Of tests with many parameters (marked `sample`) make test takes some; here are all.
full: $(READY)
	@$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m '' $(ARGS)

# No clusters, no comparison with the original, no long runs; of the server what needs no process.
QUICK_TRAINING := checkpoints_kept data_checks faults_of_steps input_of_unknown_length \
  minimize_twice overwriting pace train
QUICK_SERVING := batching/test_batching client/test_address client/test_retry \
  grpc/test_known_requests protos/test_tensors lean/test_early_answers lean/test_turns \
  lean/test_windows lifecycle/test_base_paths rest/test_json_input rows/test_proof
quick: $(READY)
	@$(PYTEST) -n 3 --dist loadfile -m 'not slow and not full' tests/core tests/engine \
	  tests/hooks tests/heads tests/features tests/inputs tests/estimator/lifecycle \
	  $(QUICK_TRAINING:%=tests/estimator/training/test_%.py) \
	  $(QUICK_SERVING:%=tests/serving/%.py) \
	  --ignore=tests/engine/distributed $(ARGS)

# MATRIX="--only 3.13" for some of it, "--all" for every pair; ARGS as above.
matrix:
	@$(PYTHON) tests/matrix.py $(MATRIX) -- $(ARGS)

# gRPC for Node, C++, Go and Java, nghttp2 and curl; what cannot be installed is said and skipped.
interop: $(READY)
	@$(PY) tests/serving/interop/install.py .interop
	@ESTIMAND_INTEROP=all $(PYTEST) -rs tests/serving/interop $(ARGS)

# CORPUS="--only adanet" for some of it. Each package is installed below .corpus, beside Estimand.
corpus:
	@PYTHONPATH=. $(PYTHON) -m tests.legacy.corpus.run .corpus $(CORPUS)

# Heavy packages, which make test does without, in an environment of their own.
$(READY_FOR_EXTRAS): pyproject.toml
	@$(PYTHON) -m venv $(VENV_EXTRAS)
	@$(VENV_EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[dev-extras]'
	@touch $@

extras-install: $(READY_FOR_EXTRAS)

extras: $(READY_FOR_EXTRAS)
	@env -u PYTHONDONTWRITEBYTECODE $(VENV_EXTRAS)/bin/python -m pytest -m extras -rs \
	  tests/batch tests/cluster/test_on_ray.py tests/cluster/test_ray_nodes.py tests/tuning \
	  tests/tracking tests/explaining tests/docs/test_extras.py $(ARGS)

# make test has some of the attacks, on the default front: a server for each takes its time.
attacks: $(READY)
	@ESTIMAND_ATTACKS=all $(PYTEST) -n 3 --dist loadfile -m '' tests/serving/attacks $(ARGS)

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

# The extra `docs` alone: the site is made of the source, so neither Estimand nor TensorFlow is
# installed beside it.
$(READY_FOR_DOCS): pyproject.toml
	@$(PYTHON) -m venv $(VENV_DOCS)
	@$(PYTHON) docs/tools/requirements.py docs > $(VENV_DOCS)/requirements.txt
	@$(VENV_DOCS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -r $(VENV_DOCS)/requirements.txt
	@touch $@

docs: $(READY_FOR_DOCS)
	@NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/python -m mkdocs build --strict --quiet
	@$(VENV_DOCS)/bin/python docs/tools/check_site.py site

# What tests say is not current. It is kept in the repository, so that docs/ can be read there.
docs-write: $(READY)
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) -m docs.tools.api_pages
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) -m docs.tools.migration_names
	@$(PY) -m docs.tools.drawings
	@$(PY) -m docs.tools.notebooks

# PICTURES="page report" for some of them: terminal, page, report.
pictures: $(READY)
	@$(PIP_INSTALL) --editable '.[dev,pictures]'
	@TF_CPP_MIN_LOG_LEVEL=3 $(PY) -m docs.tools.pictures $(PICTURES)

bench: $(READY_FOR_BENCH)
	@$(PY) bench/run.py

clean:
	rm -rf $(VENV) $(VENV_DOCS) $(VENV_EXTRAS) site .interop .matrix .corpus .fuzz .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
