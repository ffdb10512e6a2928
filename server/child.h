/* What an intake process or a search worker does to itself before it reads anything. */
#ifndef MG_SERVER_CHILD_H
#define MG_SERVER_CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct mg_child_limits {
    uint64_t memory_bytes; /* RLIMIT_DATA, 0 = none */
    uint64_t file_bytes;   /* RLIMIT_FSIZE (memfds and the spool count) */
    bool background;       /* gives way to who answers requests */
    int oom_score;         /* more is killed sooner */
};

/* Dies with its parent and not by a terminal's signals, takes the limits, gives up new privileges and core dumps.
 * False: the parent has gone already (it was `parent`), or a limit could not be set. */
bool mg_child_settle(const struct mg_child_limits *limits, long parent);

#endif
