# Every target makes its own virtual environment first; nothing needs to be installed by hand.
PYTHON ?= python3
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin
GPU_PYTHON ?= python3

.PHONY: demo play test test-slow test-browser test-gpu golden lint docs docs-serve tables guides clean

demo: $(VENV)/demo.done  ## train on embedded digits, sample, fill gaps in, write pictures to demo/
	$(BIN)/glauber demo --out demo --force

play: $(VENV)/serve.done  ## write and paint with the models in the box, in a browser
	$(BIN)/glauber play

test: $(VENV)/dev.done  ## all tests but the slow ones
	$(BIN)/python -m pytest -n auto

test-slow: $(VENV)/dev.done  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-browser: $(VENV)/dev.done  ## the page and the replays in a Chromium, which has to be there: CHROMIUM=, or the one in the PATH
	$(BIN)/python -m pytest -m browser tests/play

test-gpu:  ## what runs on a GPU alone, with a Python that has pytest and a CUDA torch: it makes no environment
	@$(GPU_PYTHON) -c 'import pytest, torch; torch.zeros(1, device="cuda")' 2>/dev/null || \
		{ echo "no GPU, or no pytest or no CUDA torch for $(GPU_PYTHON); say which Python has them: make test-gpu GPU_PYTHON=python3.12"; exit 2; }
	PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 $(GPU_PYTHON) -m pytest -m gpu -W default -p no:cacheprovider -p no:logging -vvrP --durations=5 tests/test_gpu.py

golden: $(VENV)/dev.done  ## write anew what must not change, for a change that is meant to alter it; its commit says why
	$(BIN)/python tests/golden.py

tables: $(VENV)/dev.done  ## the tables of the README and the docs, from the raw files in docs/results
	$(BIN)/python website/tables.py

guides: $(VENV)/dev.done  ## run the guides that are programs (docs/notebooks), and write their pages and notebooks: a few minutes
	$(BIN)/python website/guides.py

docs: $(VENV)/docs.done  ## the site, into dist/site; it works from a folder, offline
	$(BIN)/python website/build.py --out dist/site

docs-serve: docs  ## the site on a port of this machine
	$(BIN)/python -m http.server --directory dist/site --bind 127.0.0.1 8000

lint: $(VENV)/dev.done  ## style and types
	$(BIN)/ruff check src tests experiments website
	$(BIN)/ruff format --check src tests experiments website
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
