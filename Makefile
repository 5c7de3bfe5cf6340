# Each target works from a fresh clone on Debian 12: it installs and builds what it needs first.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
SECONDS ?= 60
SANITIZED := core compression transport collectives strategies parallel
CTEST := ctest --progress --output-on-failure --no-label-summary --no-tests=error -j$(JOBS)

.PHONY: help setup build program install test test-sanitizers asan tsan fuzz golden bench lint format study quickstart clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 18

setup:  ## install what is missing, from Debian
	@scripts/setup.sh

build: setup  ## build build/release/lockstep and the tests
	@cmake --preset release $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build --preset release -j$(JOBS)

program: setup  ## build build/release/lockstep alone
	@cmake --preset release $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build --preset release -j$(JOBS) --target lockstep

install: setup  ## the program and the library: make install PREFIX=/usr/local
	@cmake --preset release $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build --preset release -j$(JOBS) --target installable
	@cmake --install build/release --prefix $(PREFIX)

test: build  ## run every test
	@scripts/setup.sh test
	@$(CTEST) --test-dir build/release

test-sanitizers: asan tsan  ## what has no LibTorch in it under address, undefined and thread sanitizers

asan tsan: setup
	@cmake --preset $@ --log-level=WARNING >/dev/null
	@cmake --build --preset $@ -j$(JOBS) --target $(SANITIZED:%=%_tests)
	@$(CTEST) --test-dir build/$@ -L '^($(subst $() ,|,$(SANITIZED)))$$'

fuzz:  ## decoders of what peers send, fed by libFuzzer for a minute each: make fuzz SECONDS=60
	@scripts/setup.sh fuzz
	@cmake --preset release $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build --preset release -j$(JOBS) --target decoders_fuzz
	@scripts/fuzz.sh $(SECONDS)

golden: setup  ## record anew the bits, bytes and virtual times that tests/golden/ holds us to
	@cmake --preset release $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build --preset release -j$(JOBS) --target golden_tests golden_runs_tests
	@LOCKSTEP_GOLDEN=write build/release/golden_tests --gtest_brief=1
	@LOCKSTEP_GOLDEN=write build/release/golden_runs_tests --gtest_brief=1
	@git diff --stat -- tests/golden

bench:  ## compare with Open MPI, Gloo, LibTorch alone and PyTorch's DDP (with its hooks too) on this machine
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	@scripts/bench.sh
	@build/release/libtorch_step
	@build/release/compression_speed 25 9 kept
	@build/release/compression_speed 25 9 plain
	@build/release/sampler_cost
	@scripts/bench_training.py

lint: build  ## formatting and clang-tidy
	@scripts/lint.sh

format: setup  ## rewrite the sources as clang-format wants them
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

study: program  ## compare ways of averaging on 3 workers, and write the report
	@build/release/lockstep data fetch mnist || echo "generated digits stand in for MNIST" >&2
	@build/release/lockstep study studies/averaging.toml --quick

quickstart: program  ## one short training on 2 workers
	@build/release/lockstep train --epochs 1 --limit 12800

clean:  ## remove everything built
	@rm -rf build
