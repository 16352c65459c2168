# Every target makes its own virtual environment first; nothing needs to be installed by hand.
PYTHON ?= python3
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow lint clean

demo: $(VENV)/demo.done  ## train on embedded digits, sample, fill gaps in, write pictures to demo/
	$(BIN)/glauber demo --out demo --force

test: $(VENV)/dev.done  ## all tests but the slow ones
	$(BIN)/python -m pytest -n auto

test-slow: $(VENV)/dev.done  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/dev.done  ## style and types
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

clean:  ## remove the environment and what the demo wrote
	rm -rf $(VENV) demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "glauber needs Python 3.11 or newer; say which with: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# torch first, by itself: otherwise a dependency may pull in another build.
$(VENV)/torch.done: $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	@touch $@

$(VENV)/%.done: $(VENV)/torch.done pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@
