/* The daemon: store, intake, job manager and HTTP on one loop. */
#ifndef MG_SERVER_SERVE_H
#define MG_SERVER_SERVE_H

#include "server/http.h"

struct mg_serve_config {
    struct mg_http_config http; /* loop, jobs and intake are filled in */
    const char *data_dir;
    bool only_timings;     /* for a command that works on DIR: jobs stay as they are, and nothing else is served */
    const char *port_file; /* NULL; else the address is written there once requests are answered */
    unsigned workers, intakes;
    double max_seconds, pause_seconds, silence_seconds, keep_days;
    uint64_t max_queued, max_queued_per_owner, min_free_bytes, max_store_bytes;
    uint64_t intake_memory_bytes;
    unsigned intake_cpu_seconds;
};

/* Runs until SIGTERM, SIGINT or SIGHUP (unless that is ignored: nohup); a second one hurries. Returns the exit code. */
int mg_serve(const struct mg_serve_config *config);

#endif
