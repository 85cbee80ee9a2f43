# Every target works from a clean clone: .venv is made on first use and reused.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2
SECONDS ?= 600
FUZZ_FILES ?= 5000
NETWORKS ?= 2000
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

others: .venv/others .venv/packers/installed .venv/typescript/installed ## install the packages and tools of other people that converters and exports are tested against

.venv/others: .venv/installed tests/others.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r tests/others.txt
	@touch $@

.venv/packers/installed: tests/packers.txt | .venv/installed
	$(PYTHON) -m venv .venv/packers
	.venv/packers/bin/pip install --quiet --disable-pip-version-check -r tests/packers.txt
	@touch $@

.venv/typescript/installed: | .venv/installed
	mkdir -p .venv/typescript
	! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --ignore-scripts --prefix .venv/typescript typescript@5.9.3
	@touch $@

.venv/docs/installed: docs/requirements.txt | .venv/installed
	$(PYTHON) -m venv .venv/docs
	.venv/docs/bin/pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@

docs: .venv/docs/installed ## build the documentation site into out/site, with search; a link that leads nowhere fails it
	$(BIN)/python tools/site/stage.py out/site_source
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict
	@echo "the site: $(CURDIR)/out/site/index.html"

.venv/consumers/installed: tests/consumers.txt | .venv/installed
	rm -rf .venv/consumers
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .venv/consumers/python -r tests/consumers.txt
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix .venv/consumers/js onnxruntime-node@1.30.0 onnxruntime-web@1.30.0
	@touch $@

.venv/litert/installed: tests/litert.txt | .venv/installed
	rm -rf .venv/litert
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .venv/litert -r tests/litert.txt
	@touch $@

runtimes: .venv/consumers/installed .venv/litert/installed ## install the runtimes of other people that models are held to, such as OpenVINO and LiteRT: 2 GB

consumers: runtimes ## hold models in those runtimes to float64, and write the table of docs/onnx.md
	$(BIN)/python tools/tables/pages.py --kinds long --only consumers.py

demo: .venv/installed ## train the paper's network and show what it knows, in a minute
	$(BIN)/lbnn demo --out out/demo

paper: .venv/installed ## repeat the paper's experiment: tables, figures and findings in examples/polynomial, about 15 minutes
	$(BIN)/python examples/polynomial/run.py --out out/paper --workers $(JOBS)
	$(BIN)/python examples/polynomial/report.py --jobs out/paper

paper-choices: .venv/installed ## the same with other choices where the paper is silent, at 4 and 64 units: about 7 minutes
	$(BIN)/python examples/polynomial/run.py --choices --out out/paper --workers $(JOBS)
	$(BIN)/python examples/polynomial/report.py --jobs out/paper

fashion: .venv/installed ## compare classifiers on Fashion-MNIST (apt-get install dataset-fashion-mnist): 10 minutes of one core; goes on where it was
	$(BIN)/python examples/fashion/run.py --workers $(JOBS)
	$(BIN)/python examples/fashion/report.py collect
	$(BIN)/python tools/tables/pages.py --only examples/fashion

tiny: .venv/installed ## train the four networks of MLPerf Tiny briefly and verify them on an emulated Cortex-M4F: two minutes of one core
	$(BIN)/python examples/mlperf_tiny/train.py --out out/tiny
	test "$$(wc -l < out/tiny/results.csv)" -lt 5 || cp out/tiny/results.csv examples/mlperf_tiny/results.csv
	$(BIN)/python tools/tables/tiny_table.py out/tiny

bench: .venv/installed ## measure the benchmark models and MLPerf Tiny's: instructions, cycles, Helium, flash, RAM, time beside onnxruntime, export of up to 10,000,000 weights
	$(BIN)/python tools/tables/cost_table.py core
	$(BIN)/python tools/tables/cost_table.py layers
	$(BIN)/python tools/tables/unit_table.py
	$(BIN)/python tools/tables/cycle_table.py m1 m2 m3 m4 m5 kws ic vww ad
	$(BIN)/python tools/tables/cost_table.py vector
	$(BIN)/python tools/tables/forms_table.py bench
	$(BIN)/python tools/tables/tiny_table.py
	$(BIN)/python tools/bench/bench_table.py
	$(BIN)/python tools/bench/host_table.py
	$(BIN)/python tools/bench/scale_export.py

forms: .venv/installed ## measure every form of the generated C, from float32 to int8, and write docs/forms.md anew: 15 minutes of one core
	$(BIN)/python tools/tables/pages.py --kinds long --only docs/forms.md

numbers: .venv/installed ## write the measured numbers of all pages anew; KINDS=long,times for those that need time or quiet
	$(BIN)/python tools/tables/pages.py --kinds "$(KINDS)" --only "$(ONLY)"

bench-train: .venv/installed ## what a training step costs beside the plain network's, eager and compiled: about 4 minutes of one core
	$(BIN)/python tools/bench/bench_train.py --update docs/training.md

variances: .venv/installed ## NLL of networks with free and with structured variances on regression sets in UCI=DIR and the paper's problem; PAGE=docs/variances.md: 15 minutes
	$(BIN)/python tools/bench/variances.py "$(UCI)" $(if $(PAGE),--page $(PAGE))

uci: .venv/installed ## compare methods on every split of the regression sets in UCI=DIR; goes on where it was; PAGE=docs/uci.md: 20 minutes for four sets
	$(BIN)/python tools/bench/uci.py "$(UCI)" --jobs $(JOBS) $(if $(PAGE),--page $(PAGE))

large: .venv/installed ## train on 10,000,000 rows that stay on the disk, and measure the memory it takes: about 15 minutes of one core
	@$(BIN)/python tools/bench/large.py

test: .venv/installed lint ## run the whole test suite; TESTS=tests/base for a part
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(TESTS)

thorough: .venv/installed ## the same with every build, core, model and number of inputs, where make test tries a part: over an hour
	LBNN_THOROUGH=1 $(BIN)/pytest -n $(JOBS) --dist worksteal $(TESTS)

elsewhere: .venv/installed ## make test in a fresh clone in a folder with a space, as another user, with other settings, offline
	$(BIN)/python tools/check/elsewhere.py --jobs $(JOBS) --tests "$(TESTS)"

mutants: .venv/installed ## apply over 1100 small faults, one at a time, and show that the tests catch each; RANDOM=200 SEED=1 draws others
	$(BIN)/python tools/check/$(if $(RANDOM),mutants_random.py --count $(RANDOM) --seed $(or $(SEED),1),mutants.py) --jobs $(JOBS)

extremes: .venv/installed ## errors of deep, wide, huge and tiny networks on every backend: about 4 minutes of one core
	$(BIN)/python tools/check/extremes.py

stack: .venv/installed ## stack and work memory of models on a Cortex-M4F: stated, by call graph, and as measured
	$(BIN)/python tools/tables/stack_table.py

random: .venv/installed ## run NETWORKS=2000 random networks of every layer and argument on every backend, from SEED=0
	$(BIN)/python tools/check/random_networks.py --networks $(NETWORKS) --seed $(or $(SEED),0) --jobs $(JOBS)

fuzz-files: .venv/installed ## feed the readers of CSV, .npz and model files with forged ones; FUZZ_FILES=20000 for more
	$(BIN)/python tools/check/fuzz_files.py --examples $(FUZZ_FILES)

audit: .venv/installed ## check pins, installed files, licences and our own source, offline
	$(BIN)/python tools/check/audit.py

matrix: .venv/installed ## build and run generated C with every compiler, language and level; compile our source on every Python
	$(BIN)/python tools/check/matrix.py

integers: .venv/installed ## hold generated integers to their reference, 1000 samples a model, on every compiler, level and core: half an hour
	$(BIN)/python tools/check/integers.py

fuzz: .venv/installed ## fuzz every C kernel and whole models under clang's sanitizers for SECONDS=600
	$(BIN)/python tools/check/fuzz.py --seconds $(SECONDS) --jobs $(JOBS)

prove: .venv/installed ## prove with Frama-C that every C kernel and two models stay inside memory and float range
	$(BIN)/python tools/check/prove.py

analyze: .venv/installed ## cppcheck with MISRA, clang-tidy and gcc -fanalyzer on the runtime and generated C
	$(BIN)/python tools/check/analyze.py

recipes: .venv/installed ## follow every recipe of the docs word for word, each in a fresh copy
	$(BIN)/python tools/check/follow_recipes.py

lint: .venv/installed ## check style, types, and that imports point one way
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

clean: ## remove what the targets made, except .venv
	rm -rf out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help thorough docs runtimes consumers others paper paper-choices fashion tiny demo bench forms bench-train uci variances large numbers test elsewhere mutants extremes stack random fuzz-files audit matrix integers fuzz prove analyze recipes lint clean
