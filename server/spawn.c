#include "server/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 8, MAX_FDS = 4 };

int mg_memfd(const char *name)
{
    return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

bool mg_memfd_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
}

int mg_spool_open(const char *data_dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/spool", data_dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -errno;
    int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "%s/spool/XXXXXX", data_dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static uv_stdio_container_t pipe_or_stderr(uv_pipe_t *pipe)
{
    uv_stdio_container_t out = {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO};
    if (pipe) {
        out.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
        out.data.stream = (uv_stream_t *)pipe;
    }
    return out;
}

int mg_spawn(uv_process_t *process, const struct mg_spawn *what)
{
    char *arguments[MAX_ARGUMENTS + 2] = {(char *)(uintptr_t) "magisd"};
    uv_stdio_container_t stdio[3 + MAX_FDS] = {{.flags = UV_IGNORE}};
    for (int i = 0; i < MAX_ARGUMENTS && what->arguments[i]; i++)
        arguments[i + 1] = (char *)(uintptr_t)what->arguments[i];
    stdio[1] = pipe_or_stderr(what->out);
    stdio[2] = pipe_or_stderr(what->err);
    for (int i = 0; i < what->fd_count && i < MAX_FDS; i++)
        stdio[3 + i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = what->fds[i]};
    uv_process_options_t options = {.exit_cb = what->exited,
                                    .file = what->executable,
                                    .args = arguments,
                                    .stdio_count = 3 + what->fd_count,
                                    .stdio = stdio};
    return uv_spawn(what->loop, process, &options);
}
