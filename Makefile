# `make run` and `make test` start from a bare machine: Python >= 3.11, make, a package registry.
PYTHON   ?= python3
VENV     ?= .venv
BIN      := $(VENV)/bin
SCENARIO ?= scenarios/urban_er_k20.toml
STAMP    := $(VENV)/.installed
# One OpenMP thread per xdist worker: two workers with two threads each fight over two cores. A file's tests share runs,
# so a file stays with one worker; files go in their order, or the few long tests would come last.
PYTEST   := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: run test test-all mutants lint types venv browser wheel clean

run: $(STAMP)
	@$(BIN)/wirelessdl run $(SCENARIO)

test: lint types
	$(PYTEST) -m "not slow"

test-all: lint types
	$(PYTEST)

# Whether tests notice a small change in the modules that epsilons rest on; takes a second or more for each of 700
# changes, and is not part of `test`.
mutants: $(STAMP)
	$(BIN)/python tests/mutants.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

venv: $(STAMP)

# What tests open reports with. Without it they are skipped, and say so.
browser:
	@command -v chromedriver >/dev/null && exit 0; \
	command -v apt-get >/dev/null || { echo "no apt-get here: install Chromium and chromedriver by hand"; exit 0; }; \
	AS=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
	$$AS apt-get update -qq && $$AS apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core \
	|| echo "Chromium cannot be installed here: tests that open reports will be skipped"

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

wheel: $(STAMP)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache
