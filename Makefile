# The targets use the virtual environment in .venv; `make install` makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install check test slow-tests mutants rules maths notebook plot pyright campaign rulesets features records certify certify-mistakes fuzz constraints audit lint format types docs pages man vscode bench ci clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(BIN)/pytest  ## Make .venv with the project and all that its development needs

$(BIN)/pytest: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -e '.[dev]'
	@touch $@

check: lint types test  ## All that must pass before a commit

test: install  ## Run the tests, lit tests included, without slow ones and campaigns (two to four minutes on two cores)
	$(BIN)/pytest -n auto

slow-tests: install  ## Run all tests but campaigns, and write which are slow to test/slow_tests.txt (eight minutes on 2 cores)
	$(BIN)/pytest -n auto --record-slow
	$(BIN)/pytest -n auto --record-slow --slow

mutants: install  ## Plant mistakes in the code, one by one, and see that tests notice them (a quarter of an hour on 2 cores)
	$(BIN)/python test/mutants

rules: export PYTHONPATH := test
rules: install  ## Prove rewrite rules, folds and lowered ops by z3, and keep the results (half an hour; ONLY=add, of an op or a rule, a minute)
	$(BIN)/python -m support.rules --json docs/results/rules.json $(if $(ONLY),--only $(ONLY))

maths: export PYTHONPATH := test
maths: install  ## Errors of the mathematical functions on all numbers of 16 bits and many others (ten minutes)
	$(BIN)/python -m support.math_campaign --json docs/results/math_functions.json
	$(BIN)/python docs/math_functions_page.py > docs/reference/math_functions.md

notebook: install  ## Run the notebook in docs and keep what its cells print
	$(BIN)/pip install -e '.[notebook]'
	$(BIN)/python docs/run_notebook.py

plot: install  ## Draw the figures of docs/ from bench/results
	$(BIN)/pip install -e '.[plot]'
	$(BIN)/python bench/search_sizes_plot.py
	$(BIN)/python bench/peers_plot.py

# What docs/explanation/fusion.md has the figures of.  SEED chooses other pipelines, N how many.
SEED ?= 1
N ?= 200000
campaign: export PYTHONPATH := test
campaign: install  ## The tests at full optimisation, those that a plain run leaves out, then random pipelines before and after passes (hours; N=2000 for less)
	$(BIN)/pytest -n auto --level=3
	$(BIN)/pytest -n auto --level=3 --slow
	$(BIN)/pytest -n auto --campaign
	$(BIN)/python -m support --pipelines $(N) --seed $(SEED) --adversarial
	$(BIN)/python -m support --pipelines $$(($(N) / 10)) --seed $(SEED) --adversarial --passes random
	$(BIN)/python -m support --pipelines $$(($(N) / 20)) --seed $(SEED) --adversarial --target cpu
	$(BIN)/python -m support --pipelines $$(($(N) / 10)) --seed $(SEED) --shaped --passes random
	$(BIN)/python -m support --pipelines $$(($(N) / 20)) --seed $(SEED) --shaped --target cpu
	$(BIN)/python -m support.certifying --kernels
	$(BIN)/python -m support.certifying --texts $$(($(N) / 10)) --seed $(SEED)

rulesets: install  ## 20,000 random sets of rules and texts, searched as `re` does (a quarter of an hour on 2 cores)
	$(BIN)/pytest -n auto --campaign test/scan/search/test_rules.py -k random_rules

features: export PYTHONPATH := test
features: install  ## Programs by pairs of features, compared with NumPy (N=300000 takes half an hour on 16 cores)
	$(BIN)/python -m support.features --programs $(N) --seed $(SEED) --json docs/results/features.json
	$(BIN)/python -m support.features --programs $$(($(N) / 15)) --seed $(SEED) --target cpu --json docs/results/features.json

records: export PYTHONPATH := test
records: install  ## 3,000 public calls, whose results and messages must be what they were (a minute on 2 cores)
	$(BIN)/python -m support.call_records replay test/support/call_records/recorded.json.gz

certify: export PYTHONPATH := test
certify: install  ## Decisions about the kernels and random texts, proved by z3 (N=20000 takes two hours on 2 cores)
	$(BIN)/python -m support.certifying --kernels
	$(BIN)/python -m support.certifying --texts $(N) --seed $(SEED)

certify-mistakes: export PYTHONPATH := test
certify-mistakes: install  ## Plant mistakes in analyses and passes, see that the certifier refutes them, and keep the results (a minute)
	$(BIN)/python -m support.certifier_mistakes --json docs/results/refuted_mistakes.json

# The cases of a seed are always the same; the time decides how many of them are run.
SECONDS ?= 60
fuzz: export PYTHONPATH := test
fuzz: install  ## Mutated texts, options, files and cache entries, and the JIT (SECONDS=60 by default)
	$(BIN)/python -m support.fuzz --seconds $(SECONDS) --seed $(SEED)

constraints:  ## Write constraints.txt: the versions that CI installs, the newest that the index has (for the Python and system at hand)
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install --quiet '.[dev,docs]'
	build/constraints/bin/pip freeze --exclude vyre-opt > constraints.txt

audit:  ## Look up known vulnerabilities of the versions in constraints.txt
	rm -rf build/audit
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

lint: install  ## Check style, format, and that packages stand in layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: install  ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## Check the types
	$(BIN)/mypy

pyright: export PYTHONPATH := test
pyright: install  ## Check the examples and the blocks of docs/reference/python.md as pyright sees them, which needs Node.js
	$(BIN)/pip install --quiet pyright
	rm -rf build/blocks && mkdir -p build/blocks
	$(BIN)/python -m support.python_blocks docs/reference/python.md build/blocks
	$(BIN)/pyright

docs: pages  ## Make the site of docs/ in docs/_build, with the API from docstrings
	$(BIN)/pip install -e '.[docs]'
	$(BIN)/sphinx-build -W -n -q docs docs/_build

pages: install  ## Make what is generated: pages of docs/, pictures, stubs of ops, highlighters
	$(BIN)/python docs/ops_page.py > docs/reference/ops.md
	$(BIN)/python docs/passes_page.py > docs/reference/passes.md
	$(BIN)/python docs/math_functions_page.py > docs/reference/math_functions.md
	$(BIN)/python bench/ratios.py > docs/reference/performance.md
	$(BIN)/python docs/pipeline_picture.py
	$(BIN)/python docs/op_stubs.py
	$(BIN)/python docs/highlighters.py
	$(BIN)/python docs/man_pages.py

man: install  ## Make the manual pages, which a wheel installs in share/man (docs/man; `man -l docs/man/vyre-opt.1`)
	$(BIN)/python docs/man_pages.py

vscode:  ## Package the extension of VS Code, editors/vscode/vyre-VERSION.vsix (needs Node.js)
	cp LICENSE editors/vscode/LICENSE
	cd editors/vscode && npm install --silent --no-audit --no-fund --no-package-lock --omit=dev
	cd editors/vscode && npx --yes esbuild extension.js --bundle --minify --platform=node --external:vscode \
	    --outfile=dist/extension.js
	cd editors/vscode && npx --yes @vscode/vsce package --no-dependencies

bench: install  ## Measure calls, the front end and the CPU kernels beside their peers, where they are installed
	$(BIN)/python bench/calls.py --quick
	$(BIN)/python bench/frontend.py
	$(BIN)/python bench/cpu_kernels.py
	$(BIN)/python bench/matmul.py
	$(BIN)/python bench/pipeline_compile.py
	$(BIN)/python bench/ratios.py > docs/reference/performance.md

ci:  ## Do what CI does, in a fresh environment
	.ci/run

clean:  ## Remove what the tools leave behind, .venv excepted
	rm -rf build dist .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
