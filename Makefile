# `make run` and `make test` start from a bare machine: Python >= 3.11, make, a package registry.
PYTHON   ?= python3
VENV     ?= .venv
BIN      := $(VENV)/bin
SCENARIO ?= scenarios/urban_er_k20.toml
STAMP    := $(VENV)/.installed
# Lines of pip that say what goes on: bars on a terminal, names elsewhere.
PIP_FLAGS ?= --disable-pip-version-check
# One OpenMP thread per xdist worker: two workers with two threads each fight over two cores. A file's tests share runs,
# so a file stays with one worker; files go in their order, or the few long tests would come last.
# Bytecode is kept, whatever the environment says: without it each worker rewrites the assertions of all files, 10 s, and
# every process that a test starts compiles the package.
PYTEST   := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: run test test-all bench soak mutants lint types venv docs docs-numbers docs-numbers-all gallery browser wheel release-check clean

run: $(STAMP)
	@$(BIN)/wirelessdl run $(SCENARIO)

test: lint types
	$(PYTEST) -m "not slow"

test-all: lint types
	$(PYTEST)

# Ratios measured side by side in one process; see docs/performance.md. ARGS: --json.
SUITE ?= limit
bench: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m bench --suite $(SUITE) $(ARGS)

# Campaigns with large counts, one after another; two hours. Each prints what it found and its counts; one that was stopped
# goes on by its journal in SOAK, which a new soak does without: remove it first.
SOAK ?= outputs/soak
soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/combinations.py $(SOAK)/combinations 400
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/kills.py $(SOAK)/kills 500
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/damage.py $(SOAK)/damage 500
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/mutants.py $(SOAK)/mutants 0 5099
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/surroundings.py $(SOAK)/surroundings 150
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/sessions.py $(SOAK)/sessions 150
	test "$$(id -u)" != 0 || OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/owners.py $(SOAK)/owners 100
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/long_run.py $(SOAK)/long_run 20000 rician in-use
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/long_run.py $(SOAK)/long_run_resident 60000 rician

# Whether tests notice a small change in the modules that epsilons rest on; takes half a second for each of 1,400
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
	@echo "Installing into $(VENV): 2 GB with torch, two to seven minutes the first time."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) --constraint constraints.txt --editable ".[dev]"
	@touch $@
	@echo "Installed. The command is $(BIN)/wirelessdl; after \`. $(BIN)/activate\` it is wirelessdl."

# What one target needs beyond the tests.
$(VENV)/.installed-%: $(STAMP)
	$(BIN)/python -m pip install $(PIP_FLAGS) --constraint constraints.txt --editable ".[$*]"
	@touch $@

# The documentation site, in site/: open site/index.html. Broken links and anchors are errors.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Reruns the commands that numbers and pictures of the documentation come from; fails where one differs by more than its
# tolerance, or a picture is stale.
docs-numbers: $(STAMP)
	$(BIN)/python docs/check_numbers.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/pictures.py

docs-numbers-all: $(STAMP)
	$(BIN)/python docs/check_numbers.py --all
	OMP_NUM_THREADS=1 $(BIN)/python docs/pictures.py --all

# Runs every bundled scenario and writes docs/gallery.md, its pictures and its numbers; then draws all other pictures that
# take minutes. Those that take hours: python docs/pictures.py --write NAME.
gallery: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python docs/gallery.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/pictures.py --write

wheel: $(STAMP)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Wheel and sdist as a stranger meets them: a clean environment outside of the repository.
release-check: $(VENV)/.installed-release
	.ci/release-check $(BIN)/python

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache
