/* A program's body, for what builds and runs it (program.c) and what times it (program_time.c). */
#ifndef MG_MEASURE_PROGRAM_PRIV_H
#define MG_MEASURE_PROGRAM_PRIV_H

#include "base/digest.h"
#include "exec/walk_plan.h"
#include "measure/measure_priv.h"
#include "measure/program.h"

enum kind { KIND_RUN, KIND_STORE, KIND_LOAD, KIND_WAIT };
/* How far back what an instruction touches was touched before: no other than its own operands and results since then,
 * a sixteenth of what the device's last cache is said to hold, a quarter, half of it, twice as much: others use it too,
 * and it loses some of what it could hold and keeps some of what it could not. An operator has a time for each. */
enum reuse { REUSE_OWN, REUSE_NEAR, REUSE_MIDDLE, REUSE_EDGE, REUSE_FAR, REUSES };
struct instruction {
    enum kind kind;
    uint32_t op;           /* RUN: index of the distinct operator; STORE, LOAD: of the distinct copy */
    uint32_t in, out;      /* RUN: first address of operands, of results */
    mg_value copy;         /* STORE, LOAD */
    uint64_t at, bytes;    /* STORE, LOAD: in the arena */
    enum mg_stream stream; /* on which it is queued; WAIT: which waits */
    uint32_t mark;         /* set behind it, MG_NONE: nobody waits for it; WAIT: waited for */
    uint32_t after;        /* WAIT: the instruction that is waited for */
    uint32_t known[3];     /* once it has ended so many instructions of each stream have; not WAIT */
    float reuse[REUSES];   /* shares of the bytes that it moves, 1 in all; not WAIT */
    struct mg_exec_origin origin;
};
/* An operator with its layouts, in place or not, or copies of as many bytes in one direction: what takes one time. */
struct distinct {
    struct mg_hash128 key;
    struct mg_prepared *prepared; /* operators */
    const char *text;
    uint32_t uses, first; /* first: the first instruction of its */
    uint32_t in_place;    /* operators: 1 + the operand whose storage the first result takes, 0: none */
    uint64_t bytes;       /* operators: of operands and results */
    bool wanted[REUSES];  /* which times its instructions ask for */
    double within;        /* seconds in the plan's course, all profiled runs together */
};
struct given {
    mg_value value, copy;
    bool on_host;
    struct mg_located place;
};
struct storage {
    uint64_t at, bytes;
};
/* By which of a program's instructions others must wait (program_order.c). */
struct touched {
    uint64_t at, bytes;
    uint32_t by[3]; /* the last copy that touched it, by stream; MG_NONE: none */
};
struct ordering {
    struct touched *touched; /* storages alive that copies read or wrote */
    size_t touched_count, touched_capacity;
    uint32_t *stored;     /* by host copy: its last store */
    uint32_t freed[3];    /* F of S4: the last copies that touched storages freed since, by stream */
    uint32_t computed;    /* the last that computes */
    uint32_t known[3][3]; /* the next one of a stream starts after so many of each have ended */
    uint32_t mark_count;
};
struct mg_program {
    struct mg_arena arena, scratch;
    const struct mg_graph *original; /* while it is built */
    struct mg_engine *engine;
    char *memory;         /* guard, arena, guard; NULL: nowhere yet */
    uint64_t turn;        /* the pool's when it was placed there */
    bool holds_pool, ran; /* ran: to the end, and nothing else was done with its memory since */
    uint64_t arena_bytes;
    uint64_t *address; /* offsets in the arena, then addresses as of `memory` */
    size_t address_count, address_capacity;
    struct instruction *items;
    size_t count, capacity;
    struct distinct *ops;
    size_t op_count, op_capacity;
    uint32_t *slots; /* by key, MG_NONE: empty */
    size_t slot_count;
    struct distinct *copies;
    size_t copy_count, copy_capacity;
    struct given *given;
    size_t given_count, given_capacity;
    struct given *results;
    size_t result_count, result_capacity;
    size_t value_count; /* of the original */
    void *host_memory;
    void **host; /* copies by value of the plan's graph, in host_memory */
    uint64_t *host_bytes;
    size_t host_count;
    struct storage *alive;
    size_t alive_count, alive_capacity;
    uint64_t alive_bytes;
    struct ordering order;
    bool followed;   /* program_reuse.c did its work */
    double *mark_at; /* program_time.c: when each mark was reached */
    uint32_t profiles;
    struct mg_program_facts facts;
    bool (*stop)(void *context);
    void *stop_context;
};

/* Adds the instruction that runs, stores or loads what the action says, and before it the waits that S4 asks for. */
struct instruction *mg_program_add(struct mg_program *p, enum kind kind, const struct mg_action *action);
void mg_program_begin_order(struct mg_program *p);
/* A storage that is alive holds nothing any more. */
void mg_program_order_free(struct mg_program *p, const struct storage *storage);
/* After the last instruction: numbers the marks. */
void mg_program_end_order(struct mg_program *p);

/* Sets each instruction's `reuse` (program_reuse.c), once. */
enum mg_code mg_program_follow_reuse(struct mg_program *p, struct mg_error *err);
/* The arena's first address; 0 before it has one, which those of its operands count from then. */
uint64_t mg_program_base(const struct mg_program *p);
/* Bytes between two uses of an operand, mg_time_policy's `apart`. */
uint64_t mg_program_apart(const struct mg_program *p, enum reuse reuse);

/* The arena has memory in the engine's pool, another if that was taken by others since; results there are none then. */
enum mg_code mg_program_be_placed(struct mg_program *p, struct mg_error *err);
/* One instruction of a program that is placed; on a device it is only queued. */
enum mg_code mg_program_run_one(struct mg_program *p, const struct instruction *item, struct mg_error *err);
/* MG_ERR_CANCELLED where mg_program_stop_when() says so. */
enum mg_code mg_program_go_on(const struct mg_program *p, struct mg_error *err);
/* MG_ERR_REJECTED: something was written outside of the arena. */
enum mg_code mg_program_check_guards(struct mg_program *p, struct mg_error *err);

#endif
