# iosched: `make run` shows the main job, `make test` runs every test. Both set up what is missing.

CARGO ?= cargo
BIN   := target/release/iosched
PREFIX ?= /usr/local
SUDO  := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: run test test-full bench install setup setup-test build clean

run: setup build ## measure this kernel's schedulers on an emulated disk, and leave no trace
	$(SUDO) $(BIN) tune

build:
	$(CARGO) build --release --locked

setup: ## packages that the command needs at run time
	scripts/setup run

setup-test: ## packages that the tests need besides
	scripts/setup test

test: setup-test ## formatting, lints, every test
	scripts/test

test-full: setup-test build ## what takes longer than CI may: faults at full size, calibration
	scripts/test-full

bench: setup-test build ## whole commands and inner loops, as ratios to a peer in the same run
	scripts/bench

install: build ## one static-ish binary into $(PREFIX)/bin
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/iosched

clean:
	$(CARGO) clean
