# Every target sets up what it needs in .venv, from a fresh clone; a changed pyproject.toml sets it up anew.
#   make test PYTHON=python3.12      use another interpreter
#   make test TESTS=tests/pattern        run a part
#   make bench ONLY="chain fanout"   run some benchmarks

PYTHON  ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
WORKERS ?= 2
TESTS   ?=
ONLY    ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check
# Of the 19,000 modules that come in, a quarter is ever read: each is compiled when it is.
INSTALL = $(PIP) install --quiet --no-compile
# The one exact version is pyproject.toml's. It goes in alone, first, so that everything after it is resolved against
# the build that pip is set up to take on this machine; which build that is, CPU or CUDA, is pip's configuration.
TORCH := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

# What the demo needs besides PyTorch, by its line in pyproject.toml.
DIFFUSERS := $(shell sed -n 's/.*"\(diffusers[^"]*\)".*/\1/p' pyproject.toml)

# What Python compiles is kept, whatever the environment says: each command would compile the packages it reads again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.PHONY: demo test test-slow fuzz bench lint lint-ruff lint-format lint-types lint-imports lint-pages docs ui browser site gallery wheel-check clean lowest

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/optimize_unet.py build/demo --wide

# One thread per worker: two workers with a thread pool each would fight over the same cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# All tests but the slow ones, which tests/slow.txt lists: those of three seconds or more, and of many alike some of one second.
test: $(VENV)/dev.stamp browser
	$(PYTEST) -m "not slow" $(TESTS)

# The slow ones: the largest of the published models, long searches, programs of 100,000 bindings; and each call of the
# tests of operators on XLA, of which the others compile a few of each operator.
test-slow: $(VENV)/dev.stamp browser
	$(PYTEST) -m slow $(TESTS)
	EVERY_CALL_ON_XLA=1 $(PYTEST) -m "not slow" $(or $(TESTS),tests/op)

# Damaged files of all kinds, within limits of time and memory: ROUNDS of each kind, from SEED on.
ROUNDS ?= 500
SEED ?= 0
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz.rounds $(ROUNDS) $(SEED)

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench $(ONLY)

lint: lint-ruff lint-format lint-types lint-imports lint-pages

lint-ruff: $(VENV)/dev.stamp
	$(BIN)/ruff check

lint-format: $(VENV)/dev.stamp
	$(BIN)/ruff format --check

lint-types: $(VENV)/dev.stamp
	$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python

lint-imports: $(VENV)/dev.stamp
	$(BIN)/lint-imports

# The code of every page, and rules as people write them, in Pyright's strict mode.
lint-pages: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q tests/typing/test_strict.py

docs: $(VENV)/dev.stamp
	$(BIN)/python -m tools.ops_table > docs/ops.md.new
	mv docs/ops.md.new docs/ops.md
	$(BIN)/python -m tools.relax_names > docs/relax.md.new
	mv docs/relax.md.new docs/relax.md
	$(BIN)/python -m tools.torch_coverage > docs/torch_coverage.md.new
	mv docs/torch_coverage.md.new docs/torch_coverage.md
	$(BIN)/python -m tools.quantized_operators > docs/quantized_operators.md.new
	mv docs/quantized_operators.md.new docs/quantized_operators.md
	$(BIN)/python -m tools.gradient_table > docs/gradients_coverage.md.new
	mv docs/gradients_coverage.md.new docs/gradients_coverage.md
	$(BIN)/python -m bench.model_counts > docs/models.md.new
	mv docs/models.md.new docs/models.md
	$(BIN)/python -m tools.line_count docs/architecture.md > docs/architecture.md.new
	mv docs/architecture.md.new docs/architecture.md

# The page's script, from its sources in ui/; only who changes these needs Node.
ui:
	cd ui && npm ci --no-audit --no-fund && npm run build

# The documentation as a site, in site/, with the API reference and the gallery; a link that leads nowhere is an error.
site: $(VENV)/dev.stamp
	$(BIN)/python -m tools.site

# The reports of the gallery and the pictures of the page, from models; takes minutes.
gallery: $(VENV)/dev.stamp browser
	$(BIN)/python -m tools.gallery
	$(BIN)/python -m tools.pictures

# The tests of the page drive a real browser.
browser:
	@if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; \
	  else \
	    echo "The tests of the page need Chromium and its driver: apt-get install chromium chromium-driver" >&2; exit 1; \
	  fi; \
	fi

# The wheel alone in an environment of its own, without PyTorch: what `pip install regraft` gives.
wheel-check: $(VENV)/created.stamp
	rm -rf build/wheel && mkdir -p build/wheel
	$(PIP) wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip --disable-pip-version-check install --quiet build/wheel/*.whl
	cd build/wheel && venv/bin/python $(CURDIR)/tests/cli/wheel_check.py

# The package and its engines on the lowest versions that pyproject.toml allows.
LOWEST_TESTS := tests/op tests/run tests/formats/test_openvino_files.py tests/formats/onnx/test_quantized_files.py tests/training/test_sharded.py tests/training/test_checkpoint.py

lowest: $(VENV)/dev.stamp
	rm -rf build/lowest
	$(INSTALL) --no-deps --target build/lowest $$($(BIN)/python -m tools.lowest_versions)
	PYTHONPATH=build/lowest $(PYTEST) -m "not slow" $(or $(TESTS),$(LOWEST_TESTS))

clean:
	rm -rf $(VENV) build dist site docs/ops.md.new .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/created.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regraft needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip
	touch $@

$(VENV)/core.stamp: pyproject.toml | $(VENV)/created.stamp
	$(INSTALL) --editable .
	touch $@

$(VENV)/demo.stamp: pyproject.toml | $(VENV)/created.stamp
	@echo "Setting up $(VENV) for the demo, with PyTorch: a few minutes the first time"
	$(INSTALL) '$(TORCH)'
	$(INSTALL) --editable '.[torch,openvino]' '$(DIFFUSERS)'
	touch $@ $(VENV)/core.stamp

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/created.stamp
	@echo "Setting up $(VENV) for development: several minutes the first time"
	$(INSTALL) '$(TORCH)'
	$(INSTALL) --editable '.[torch,xla,openvino,test,peers,lint,site]'
	touch $@ $(VENV)/core.stamp $(VENV)/demo.stamp
