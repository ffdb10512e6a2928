#include "server/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/owner.h"

/* To lock a file it is enough to read it. Systems that protect /tmp refuse O_CREAT on what somebody else has made, so
 * it is asked for only where there is nothing; what we make others may read whatever our umask says. */
static int open_file(const char *path)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0)
            (void)!fchmod(fd, 0644);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static enum mg_lock refuse(const char *path)
{
    int problem = errno;
    char owner[4400];
    if (problem == EACCES && mg_owner_explain(path, owner, sizeof owner))
        fprintf(stderr,
                "magisd: the device cannot be locked: %s: let its owner make it readable (chmod 644 %s), or remove it "
                "while nobody measures\n",
                owner, path);
    else
        fprintf(stderr, "magisd: the device cannot be locked: %s: %s; remove it while nobody measures\n", path,
                strerror(problem));
    return MG_LOCK_REFUSED;
}

enum mg_lock mg_device_lock(const char *backend, const char *uuid, int *fd)
{
    char path[160];
    if (strcmp(backend, "model") == 0) {
        *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *fd >= 0 ? MG_LOCK_OURS : refuse("/dev/null");
    }
    snprintf(path, sizeof path, "/tmp/magisd-%s.lock", *uuid ? uuid : backend);
    for (char *c = path + strlen("/tmp/"); *c; c++)
        if (*c == '/')
            *c = '_';
    *fd = open_file(path);
    if (*fd < 0)
        return refuse(path);
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return MG_LOCK_OURS;
    close(*fd);
    *fd = -1;
    return MG_LOCK_TAKEN;
}
