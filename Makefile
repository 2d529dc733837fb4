# tianci: two commands do everything: `make demo` and `make test`. `make help` lists the rest.
VENV   ?= .venv
PYTHON ?= python3
BIN     = $(VENV)/bin
SOAKS   = $(sort $(wildcard benchmarks/soak*.py))
PIP     = $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check format wheel bench bench-full soak clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# torch first and alone: whatever comes later finds it there and does not fetch another build
$(VENV)/.torch: constraints.txt
	@echo "== environment in $(VENV), with torch as constraints.txt pins it"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	@echo "== tianci and what the demo needs"
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	@echo "== tools and peers for the tests (transformers, ruff, mypy, ...)"
	@$(PIP) -e '.[dev]'
	@touch $@

# Programs that tests of the server use; where they cannot be installed, those tests are skipped and say so
$(VENV)/.programs: $(VENV)/.dev
	@command -v chromium > /dev/null && command -v nginx > /dev/null || { \
	  echo "== chromium and nginx from Debian, for the tests of the page and of two servers"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    chromium nginx-light fonts-noto-cjk; } > /dev/null 2>&1 || echo "   not installed: their tests will be skipped"; }
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "== further peers for the tables"
	@$(PIP) -e '.[bench]'
	@touch $@

demo: $(VENV)/.demo  ## the whole story on the demo text in a few minutes; ends by serving the model (Ctrl-C)
	$(BIN)/tianci demo --out demo

# two processes with one thread each: most tests are many small steps that one core does alone
test: $(VENV)/.programs check wheel  ## format, lint, types, imports, the wheel, and all tests
	@echo "== tests"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

check: $(VENV)/.dev  ## format, lint, types, import directions (no tests)
	@echo "== format, lint, types, imports"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

format: $(VENV)/.dev  ## format the code in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.dev  ## build the wheel, install it into an empty environment, use it elsewhere
	@echo "== wheel"
	@rm -rf dist
	@$(BIN)/python -m pip wheel --disable-pip-version-check -q --no-deps -w dist .
	$(BIN)/python tests/wheel.py dist/tianci-*.whl

bench: $(VENV)/.bench  ## benchmarks beside the peers, short: minutes, only to look (ONLY="start serve": these)
	$(BIN)/python benchmarks/all.py --short $(ONLY)

bench-full: $(VENV)/.bench  ## all tables, kept in benchmarks/results/; an hour and more, on a quiet machine (ROUNDS=3: fewer)
	$(BIN)/python benchmarks/all.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(ONLY)

# the long versions of the tests in CI; all run, also behind one that fails
soak: $(VENV)/.dev  ## hours of faults, bad files, load and abuse; each script prints its table
	@failed=; for script in $(SOAKS); do echo "== $$script"; $(BIN)/python $$script || failed="$$failed $$script"; done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) dist build demo .mypy_cache .ruff_cache .pytest_cache src/*.egg-info
