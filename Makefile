# make demo   the losses compared on the demo corpus, ending with an HTML report
# make test   formatter, linter, types, import contracts and every test
# Each makes .venv and installs what it needs; a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile \
	-c constraints.txt
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
# pip brings torch, for it alone is told where a build without CUDA may lie, and uv the rest in a
# small part of pip's time; where uv is not to be had or does not find something, pip brings all.
INSTALL = $(PIP) --no-deps torch && \
	{ { $(PIP) uv && $(UV) -e ".[$(EXTRAS)]"; } || $(PIP) -e ".[$(EXTRAS)]"; }
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test format lint types contracts pytest figures pictures accessibility docs build clean

help:
	@sed -n '1,/^$$/s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "zlpr needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: EXTRAS := text,report,data
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing zlpr into $(VENV) (once, a few minutes) ..."
	$(INSTALL)
	@touch $@

$(VENV)/.installed-dev: EXTRAS := dev
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing zlpr and its development tools into $(VENV) (once, a few minutes) ..."
	$(INSTALL)
	@touch $@ $(VENV)/.installed-demo

demo: $(VENV)/.installed-demo
	$(BIN)/zlpr compare
	@echo
	@echo "Next, with texts and labels of your own (CSV, JSON Lines, Parquet, ...):"
	@echo "    $(BIN)/zlpr train YOUR-FILE.csv --out my-model"
	@echo "    $(BIN)/zlpr predict my-model \"a text\""
	@echo "or 'source $(BIN)/activate' once, and then just: zlpr --help"

# mypy keeps one core busy; beside it, the other compiles what the tests import, before several
# workers would each do so.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.compiled types format lint contracts
	@$(MAKE) --no-print-directory pytest

$(VENV)/.compiled: $(VENV)/.installed-dev
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true # pytest will tell
	@touch $@

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
