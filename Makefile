# magisd: see README.md. `make` builds, `make test` is what CI runs, `make demo` shows the main job.
BUILD ?= build
CC ?= gcc
STD = -std=c17 -D_GNU_SOURCE
WARN = -Wall -Wextra -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Werror
OPT ?= -O2 -g
CPPFLAGS += -I. -Icore -MMD -MP
CFLAGS += $(STD) $(WARN) $(OPT) -ffp-contract=off -fno-math-errno $(SANITIZE)
LDFLAGS += $(SANITIZE)
LIBS = -lmicrohttpd -ljansson -lsqlite3 -luv -lz -lpthread -lm

CORE_SRC = $(wildcard core/*/*.c core/*.c)
STORE_SRC = $(wildcard store/*.c)
SERVER_SRC = $(wildcard server/*.c)
CORE_OBJ = $(CORE_SRC:%.c=$(BUILD)/%.o)
STORE_OBJ = $(STORE_SRC:%.c=$(BUILD)/%.o)
SERVER_OBJ = $(SERVER_SRC:%.c=$(BUILD)/%.o)
UNIT_SRC = $(wildcard tests/unit/test_*.c)
UNIT_BIN = $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/%)

.PHONY: all test clean
all: $(BUILD)/libmagis.a $(BUILD)/magisd

$(BUILD)/libmagis.a: $(CORE_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/magisd: $(SERVER_OBJ) $(STORE_OBJ) $(BUILD)/libmagis.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libmagis.a $(STORE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-missing-prototypes -Wno-shadow -Wno-conversion -o $@ $< $(filter %.o,$^) $(BUILD)/libmagis.a $(LDFLAGS) -lcriterion $(LIBS)

test: $(UNIT_BIN)
	@set -e; for t in $(UNIT_BIN); do echo "== $$t"; $$t; done

clean:
	rm -rf $(BUILD)

-include $(CORE_OBJ:.o=.d) $(STORE_OBJ:.o=.d) $(SERVER_OBJ:.o=.d)
