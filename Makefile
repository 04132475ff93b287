# make demo   the losses compared on the demo corpus, ending with an HTML report
# make test   formatter, linter, types, import contracts and every test
# Each makes .venv and installs what it needs; a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip compiles what it installs with one core; compileall, afterwards, with all of them.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile \
	-c constraints.txt
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # some files are templates
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test format lint types contracts pytest figures pictures accessibility docs build clean

help:
	@sed -n '1,/^$$/s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "zlpr needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing zlpr into $(VENV) (once, a few minutes) ..."
	$(INSTALL) -e ".[text,report,data]"
	@$(COMPILE)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing zlpr and its development tools into $(VENV) (once, a few minutes) ..."
	$(INSTALL) -e ".[dev]"
	@$(COMPILE)
	@touch $@ $(VENV)/.installed-demo

demo: $(VENV)/.installed-demo
	$(BIN)/zlpr compare
	@echo
	@echo "Next, with texts and labels of your own (CSV, JSON Lines, Parquet, ...):"
	@echo "    $(BIN)/zlpr train YOUR-FILE.csv --out my-model"
	@echo "    $(BIN)/zlpr predict my-model \"a text\""
	@echo "or 'source $(BIN)/activate' once, and then just: zlpr --help"

test: format lint types contracts pytest

format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

contracts: $(VENV)/.installed-dev
	$(BIN)/lint-imports

# The tests start many processes, and three workers keep two cores busy while some of them wait.
# Without bytecode files each process would compile the package again.
pytest: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

figures: $(VENV)/.installed-dev
	$(BIN)/zlpr theory --out docs/figures

pictures: $(VENV)/.installed-dev
	$(BIN)/python docs/pictures.py

accessibility: $(VENV)/.installed-dev
	ZLPR_EVERY_PAGE=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/test_site.py -k read

docs: $(VENV)/.installed-dev
	$(BIN)/python docs/build.py site

build: $(VENV)/.installed-dev
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
