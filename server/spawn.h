/* Starting our own binary as a child, and what is handed to it. */
#ifndef MG_SERVER_SPAWN_H
#define MG_SERVER_SPAWN_H

#include <uv.h>

#include <stdbool.h>
#include <stddef.h>

/* An anonymous file (close-on-exec), -1 on failure. */
int mg_memfd(const char *name);
/* No more writes, growth or shrinking. */
bool mg_memfd_seal(int fd);
/* An open file in DIR/spool that has no name any more, -errno on failure. */
int mg_spool_open(const char *data_dir);

struct mg_spawn {
    uv_loop_t *loop;
    const char *executable;
    const char *const *arguments; /* after the program's name, NULL at the end */
    uv_pipe_t *out, *err;         /* initialised; NULL: our own stderr */
    const int *fds;               /* become descriptors 3, 4, ... */
    int fd_count;
    uv_exit_cb exited;
};
/* 0 or a negative libuv error; then the process handle still has to be closed. */
int mg_spawn(uv_process_t *process, const struct mg_spawn *what);

#endif
