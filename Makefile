# Two commands need nothing but Python 3.11 or later and make:
#   make demo    trains on real data and prints a table
#   make test    lints, checks types and runs every test

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
INSTALL := $(PIP) install --no-compile --editable
# By the sources' path, because the package is installed anew meanwhile.
WARMUP := PYTHONPATH=src NUMBA_CACHE_DIR=$(CURDIR)/.numba_cache $(BIN)/python -m pvtree warmup
UNIT := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --ignore tests/spark --ignore tests/ray
# Boosting on one worker needs the fewest kernels, so it is what make quick trains, in the end.
QUICK := comm/test_local.py project/test_lengths.py parameters/test_params.py project/test_paths.py \
	project/test_rooms.py project/test_sentences.py \
	objectives/test_fixed_point.py objectives/test_losses.py objectives/test_metrics.py \
	objectives/test_more_metrics.py objectives/test_shared_metrics.py binning/test_binning.py \
	binning/test_coarsening.py binning/test_dataset.py growing/test_layouts.py growing/test_sampling.py \
	model/test_atomic_file.py model/test_model.py model/test_predict.py training/test_callbacks.py \
	training/test_checkpoint.py training/test_fingerprint.py reading/test_row_ids.py reading/test_sources.py \
	comm/test_partition.py comm/test_solo.py comm/test_traffic.py project/test_package.py \
	equivalence/test_boosting.py::test_every_iteration_equals_the_brute_force
# Engines whose extras pyproject.toml has.
ENGINES := spark,ray
BENCH := --output docs/benchmarks.md --summary README.md
# pip leaves Python's bytecode to the first import. Without it every process that a test starts parses numba, scikit-learn
# and scipy anew, which takes five seconds, so it is written even where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick usual-kernels quick-tests kernels lint types unit thorough coverage engines spark-tests ray-tests fuzz chaos format bench paper docs interop wheel clean

help:  ## Show these lines
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo-installed  ## Train and evaluate on real data, under 2 minutes from nothing
	@$(BIN)/python -m pvtree.front.demo

# First what the package itself needs, so that kernels are compiled while the test tools are installed.
test: $(VENV)/.demo-installed  ## Lint, check types and run every test, from nothing
	@$(MAKE) --no-print-directory -j 3 kernels lint types unit

lint: $(VENV)/.test-installed  ## Run ruff's linter and formatter, and check the order of the rooms, without changing anything
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-cache

types: $(VENV)/.test-installed  ## Check types with mypy
	@$(BIN)/mypy

# Few kernels to compile and few tools to install, so that it takes little time from nothing.
quick: $(VENV)/.demo-installed  ## Run the linter and the tests that matter between two edits
	@$(MAKE) --no-print-directory -j 2 usual-kernels quick-tests

usual-kernels: $(VENV)/.demo-installed
	@$(WARMUP) --jobs 2 >/dev/null

quick-tests: $(VENV)/.quick-installed
	@$(BIN)/ruff check .
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not mpi and not dask and not docs" $(addprefix tests/,$(QUICK))

kernels: $(VENV)/.demo-installed  ## Compile the kernels that the tests need
	@$(WARMUP) --all --jobs 2 >/dev/null

# Three processes on two cores, as many tests wait. tests/conftest.py puts files that take long first.
unit: $(VENV)/.test-installed kernels  ## Run the tests; PROFILE=random draws other examples than always
	@$(UNIT) $(if $(PROFILE),--hypothesis-profile=$(PROFILE))
	@echo "Not run: the tests of training on Spark and Ray; make engines installs both and runs them."

# Spark needs Java 17, which pip does not install. Without it the tests say so and are skipped. Both engines wait for
# their own processes most of the time, so their tests run side by side.
engines: $(VENV)/.engines-installed kernels  ## Install Spark and Ray, and run the tests of training on them (KILLS=20 for more kills)
	@command -v java >/dev/null || echo "Java is not installed, so the tests of Spark are skipped; install Java 17 to run them."
	@$(MAKE) --no-print-directory -j 2 spark-tests ray-tests

spark-tests ray-tests: %-tests:
	@PVTREE_KILLS=$(or $(KILLS),3) $(BIN)/python -m pytest -rs --timeout 600 tests/$*

thorough: $(VENV)/.test-installed kernels  ## Run the tests with ten times the examples and with whole products of cases
	@PVTREE_THOROUGH=1 $(UNIT) --timeout 3000

coverage: $(VENV)/.test-installed  ## Run the tests and write which lines they reach to build/coverage
	@$(UNIT) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage

fuzz: $(VENV)/.test-installed  ## Attack with hostile input for MINUTES=30, with fresh seeds; failures go to build/fuzz
	@$(BIN)/python tests/attack --minutes $(or $(MINUTES),30)

format: $(VENV)/.test-installed  ## Let ruff format the code and fix what it can
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: $(VENV)/.bench-installed  ## Measure against LightGBM, XGBoost and scikit-learn, and write the tables (an hour)
	@$(BIN)/python benchmarks/single_machine.py --scaling $(BENCH)

paper: $(VENV)/.bench-installed  ## Repeat the paper's tables and figures on virtual machines (under 90 minutes; QUICK=1: minutes)
	@$(BIN)/python benchmarks/paper $(if $(QUICK),--quick --output build/paper.md)

interop: $(VENV)-interop/.installed  ## Read exported models with treelite, lleaves, SHAP and ONNX, each the real one
	@$(VENV)-interop/bin/python -m pytest tests/project/test_interop.py -p no:cacheprovider

chaos: $(VENV)/.test-installed  ## Kill, stop and starve trainings on MPI and Dask, and count what comes of it (MINUTES=60, SEED=)
	@$(BIN)/python tests/chaos --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.test-installed  ## Build the documentation into build/docs and run its notebooks; a warning is an error
	@NUMBA_CACHE_DIR=$(CURDIR)/.numba_cache $(BIN)/sphinx-build -q -W --keep-going -j 2 -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

wheel: $(VENV)/.demo-installed  ## Build a wheel with compiled kernels for this Python into dist (minutes)
	@$(BIN)/python packaging/wheel.py

clean:  ## Remove everything that make made
	rm -rf $(VENV) $(VENV)-interop .numba_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Editable, so that one environment serves every target and always runs the sources beside this file.
$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	@echo "Installing pvtree into $(VENV)."
	@$(INSTALL) .
	@touch $@

$(VENV)/.quick-installed: pyproject.toml | $(BIN)/python
	@echo "Installing pvtree and what its quick tests need into $(VENV)."
	@$(INSTALL) '.[quick]'
	@touch $@ $(VENV)/.demo-installed

$(VENV)/.test-installed: pyproject.toml | $(BIN)/python
	@echo "Installing pvtree and its test tools into $(VENV)."
	@$(INSTALL) '.[test]'
	@touch $@ $(VENV)/.demo-installed $(VENV)/.quick-installed

$(VENV)/.engines-installed: pyproject.toml | $(VENV)/.test-installed
	@echo "Installing Spark and Ray into $(VENV)."
	@$(PIP) install --editable '.[$(ENGINES)]'
	@touch $@ $(VENV)/.test-installed

$(VENV)/.bench-installed: pyproject.toml | $(BIN)/python
	@echo "Installing pvtree and the libraries it is measured against into $(VENV)."
	@$(INSTALL) '.[bench]'
	@touch $@ $(VENV)/.demo-installed

# lleaves needs an older llvmlite, hence an older numba, than the rest.
$(VENV)-interop/.installed: pyproject.toml
	@echo "Installing pvtree and the programs that read its models into $(VENV)-interop."
	@$(PYTHON) -m venv $(VENV)-interop
	@$(VENV)-interop/bin/python -m pip -qq --disable-pip-version-check install --editable '.[test-interop]'
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "pvtree needs Python 3.11 or later; install it or run make PYTHON=/path/to/python."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
