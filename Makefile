# magisd: see README.md. `make` builds, `make test` is what CI runs, `make demo` shows the main job.
# `make help` lists the targets. BUILD names the directory of all that is built.
BUILD ?= build
ifeq ($(origin CC),default)
CC = gcc
endif
FUZZ_CC ?= clang
MAKEFLAGS += --no-print-directory
# `make V=1` shows the commands.
Q = $(if $(V),,@)
SAY = @$(if $(V),:,echo)
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

STD = -std=c17 -D_GNU_SOURCE
WARN = -Wall -Wextra -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Werror
OPT ?= -O2 -g
CPPFLAGS += -I. -Icore -MMD -MP
# Sanitizers make gcc see warnings that are not there; the plain builds judge.
CFLAGS += $(STD) $(WARN) $(OPT) -ffp-contract=off -fno-math-errno $(SANITIZE) $(if $(SANITIZE),-Wno-error)
LDFLAGS += $(SANITIZE)
LIBS = -lmicrohttpd -ljansson -lsqlite3 -luv -lz -lpthread -ldl -lm

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

CORE_SRC = $(wildcard core/*/*.c core/*.c)
STORE_SRC = $(wildcard store/*.c)
SERVER_SRC = $(wildcard server/*.c)
CORE_OBJ = $(CORE_SRC:%.c=$(BUILD)/%.o)
STORE_OBJ = $(STORE_SRC:%.c=$(BUILD)/%.o)
SERVER_OBJ = $(SERVER_SRC:%.c=$(BUILD)/%.o) $(BUILD)/web_files.o
WEB_FILES = $(shell find web -type f 2>/dev/null) $(wildcard deploy/clients/torch/*.py)
MAIN_OBJ = $(BUILD)/server/main.o

UNIT_BIN = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
HELP_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c tests/bench/*/*.c)))
REPLAY_BIN = $(patsubst tests/fuzz/%.c,$(BUILD)/replay/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
TSAN_BIN = $(patsubst tests/tsan/%.c,$(BUILD)/tsan/%,$(wildcard tests/tsan/*.c))
TOOL_BIN = $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
BENCH_BIN = $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
# What tests link: archives, so that each takes only what it needs.
LIBRARIES = $(BUILD)/libserver.a $(BUILD)/libstore.a $(BUILD)/libmagis.a
PROGRAM = $(if $(wildcard server/main.c),$(BUILD)/magisd)

# Sub-makes share the job server where there is one.
PARALLEL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

.PHONY: all help deps deps-dev deps-torch test test-build unit unit-build asan asan-build tsan tsan-run fuzz fuzz-run lint bench bench-build \
	accept demo install install-library uninstall format clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/libmagis.a $(PROGRAM)

help:
	@sed -n 's/^## //p' Makefile

# ---- building ----

# Objects depend on the flags they were built with.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS)' > $@

# core/banned.h refuses what the core must not call; the reference executor and the measuring back ends may use libm,
# the latter also clocks and files. Their loops are vectorised.
$(BUILD)/core/%.o: CPPFLAGS += -include core/banned.h
$(BUILD)/core/exec/%.o: CPPFLAGS += -DMG_LIBM_ALLOWED
$(BUILD)/core/measure/%.o: CPPFLAGS += -DMG_LIBM_ALLOWED -DMG_DEVICES_ALLOWED
# Conditional expressions become selections, which take as long whatever the numbers: nobody looks at exception flags.
$(BUILD)/core/measure/%.o: CFLAGS += -O3 -fno-trapping-math
# The innermost loops of the reference executor and of the search.
$(BUILD)/core/exec/kernel_contraction.o: CFLAGS += -O3
$(BUILD)/core/search/evaluate.o: CFLAGS += -O3
$(BUILD)/tests/%.o: CFLAGS += -Wno-missing-prototypes -Wno-shadow -Wno-conversion -Wno-missing-field-initializers

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(SAY) '  CC   $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The page travels in the binary.
$(BUILD)/web_files.c: server/embed.sh FORCE
	@mkdir -p $(@D)
	@server/embed.sh web > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/web_files.o: $(BUILD)/web_files.c $(WEB_FILES) server/schemas.json $(BUILD)/flags
	$(SAY) '  CC   $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The functions of exported PyTorch modules travel in the binary too.
$(BUILD)/core/export/library.o: core/export/torch_ops.py
# ... and the kernels that are compiled where the device is.
$(BUILD)/core/measure/cuda_families.o: core/measure/kernels.cu core/measure/contractions.cu

$(BUILD)/libmagis.a: $(CORE_OBJ)
$(BUILD)/libstore.a: $(STORE_OBJ)
$(BUILD)/libserver.a: $(filter-out $(MAIN_OBJ),$(SERVER_OBJ))
$(BUILD)/libtest.a: $(HELP_OBJ)
# A linker takes the first of two equal names from an archive in silence: refuse them here.
$(BUILD)/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(SAY) '  AR   $@'
	$(Q)ar rcs $@ $^
	@twice=$$(nm -g --defined-only $@ 2>/dev/null | awk '$$2 ~ /[TDBRC]/ { print $$3 }' | sort | uniq -d); \
		[ -z "$$twice" ] || { echo "$@: defined twice: $$twice" >&2; exit 1; }

$(BUILD)/magisd: $(SERVER_OBJ) $(STORE_OBJ) $(BUILD)/libmagis.a
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/libtest.a $(LIBRARIES)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -lcriterion $(LIBS)

$(BUILD)/replay/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/replay.o $(LIBRARIES)
	@mkdir -p $(@D)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS)

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIBRARIES)
	@mkdir -p $(@D)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o %.a,$^) $(LIBS)

$(BUILD)/tsan/%: $(BUILD)/tests/tsan/%.o $(LIBRARIES)
	@mkdir -p $(@D)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS)

# What scripts of tests/e2e call.
$(BUILD)/tools/%: $(BUILD)/tests/tools/%.o $(LIBRARIES)
	@mkdir -p $(@D)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -lcriterion $(LIBS)

$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(BUILD)/libtest.a $(LIBRARIES)
	@mkdir -p $(@D)
	$(SAY) '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS)

# ---- what people call ----

## make            build/magisd and build/libmagis.a
## make deps       install what building and testing need (the only step that uses the network)
## make deps-dev   ... and what lint and fuzz need
## make deps-torch PyTorch of Debian for /usr/bin/python3, or with PYTHON=... by its pip, for the tests that need it (large;
##                 they say loudly when it is missing)
deps:
	@deploy/deps.sh install

deps-dev:
	@deploy/deps.sh install-dev

deps-torch:
	@deploy/deps.sh install-torch

## make test       build all and run every test; the last line is "N passed, M failed"
test:
	@deploy/deps.sh check || $(MAKE) deps
	@+$(MAKE) $(PARALLEL) test-build
	@BUILD=$(BUILD) tests/run.sh $(UNIT_BIN) $(REPLAY_BIN)

## make test-build build the test programs, run none
test-build: all unit-build $(TOOL_BIN) $(BUILD)/bench/bench_device
unit-build: $(UNIT_BIN) $(REPLAY_BIN)

## make unit       the unit tests alone
unit:
	@+$(MAKE) $(PARALLEL) unit-build
	@BUILD=$(BUILD) MAGIS_ONLY=unit tests/run.sh $(UNIT_BIN) $(REPLAY_BIN)

## make asan       every test under AddressSanitizer and UBSan, in build-asan
asan:
	@+$(MAKE) $(PARALLEL) test-build BUILD=build-asan OPT='-O1 -g -fno-omit-frame-pointer' \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
	@BUILD=build-asan MAGIS_SANITIZER=1 tests/run.sh $(UNIT_BIN:$(BUILD)/%=build-asan/%) \
		$(REPLAY_BIN:$(BUILD)/%=build-asan/%)

## make tsan       the threaded programs of tests/tsan under ThreadSanitizer, in build-tsan
tsan:
	@+$(MAKE) $(PARALLEL) tsan-run BUILD=build-tsan OPT='-O1 -g' SANITIZE=-fsanitize=thread

tsan-run: $(TSAN_BIN)
	@set -e; for t in $(TSAN_BIN); do echo "== $$t"; TSAN_OPTIONS=halt_on_error=1 $$t; done

## make fuzz       each target of tests/fuzz for FUZZ_SECONDS (60), in build-fuzz
FUZZ_SECONDS ?= 60
fuzz:
	@+$(MAKE) $(PARALLEL) fuzz-run CC=$(FUZZ_CC) BUILD=build-fuzz OPT='-O1 -g' \
		SANITIZE='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined'

fuzz-run: $(FUZZ_BIN)
	@set -e; for t in $(FUZZ_BIN); do \
		name=$$(basename $$t); work=$(BUILD)/corpus/$$name; seeds=tests/fuzz/corpus/$$name; \
		mkdir -p $$work $$seeds; echo "== $$name"; \
		$$t -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
			-artifact_prefix=$$work- $$work $$seeds; \
	done

## make lint       formatting, warnings of clang-tidy and cppcheck, each header alone
lint:
	@CC='$(CC)' JOBS=$(JOBS) tests/lint.sh

## make format     apply .clang-format
format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

## make bench      measure
bench: bench-build
	@BUILD=$(BUILD) tests/bench.sh bench

bench-build: all $(BENCH_BIN)

## make accept     print the tables of figures to reach, measured
accept: bench-build
	@BUILD=$(BUILD) tests/bench.sh accept

## make demo       the main job on a real network; prints the address of its page
demo:
	@deploy/deps.sh check-demo || $(MAKE) deps
	@+$(MAKE) $(PARALLEL) all
	@BUILD=$(BUILD) deploy/demo.sh

# The program describes itself.
$(BUILD)/magisd.1: deploy/man.sh $(BUILD)/magisd
	@deploy/man.sh $(BUILD)/magisd > $@

$(BUILD)/magisd.bash: deploy/completion.sh $(BUILD)/magisd
	@deploy/completion.sh $(BUILD)/magisd > $@

## make install    program, manual page, completion for bash, service unit and library, to DESTDIR and PREFIX (/usr/local)
install: all $(BUILD)/magisd.1 $(BUILD)/magisd.bash
	install -D -m 755 $(BUILD)/magisd $(DESTDIR)$(BINDIR)/magisd
	install -D -m 644 $(BUILD)/magisd.1 $(DESTDIR)$(MANDIR)/man1/magisd.1
	install -D -m 644 $(BUILD)/magisd.bash $(DESTDIR)$(COMPLETIONDIR)/magisd
	install -d $(DESTDIR)$(UNITDIR)
	sed 's|@BINDIR@|$(BINDIR)|' deploy/magisd.service > $(DESTDIR)$(UNITDIR)/magisd.service
	chmod 644 $(DESTDIR)$(UNITDIR)/magisd.service
	@$(MAKE) install-library

# The library as it was built: magis.h, what it includes, the archive and the words for pkg-config.
install-library:
	cd core && for header in $$($(CC) -MM -I. magis.h | tr -d '\\' | cut -d: -f2-); do \
		install -D -m 644 $$header $(DESTDIR)$(INCLUDEDIR)/magis/$$header || exit 1; done
	install -D -m 644 $(BUILD)/libmagis.a $(DESTDIR)$(LIBDIR)/libmagis.a
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@INCLUDEDIR@|$(INCLUDEDIR)/magis|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e "s|@VERSION@|$$(sed -n 's/.*MG_VERSION "\(.*\)"/\1/p' server/version.h)|" \
		deploy/magis.pc > $(DESTDIR)$(LIBDIR)/pkgconfig/magis.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/magis.pc

## make uninstall  remove what install has put there
uninstall:
	rm -f $(DESTDIR)$(BINDIR)/magisd $(DESTDIR)$(MANDIR)/man1/magisd.1 $(DESTDIR)$(UNITDIR)/magisd.service \
		$(DESTDIR)$(COMPLETIONDIR)/magisd $(DESTDIR)$(LIBDIR)/libmagis.a $(DESTDIR)$(LIBDIR)/pkgconfig/magis.pc
	rm -rf $(DESTDIR)$(INCLUDEDIR)/magis

## make clean      remove all build folders
clean:
	rm -rf $(BUILD) build-asan build-tsan build-fuzz

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
