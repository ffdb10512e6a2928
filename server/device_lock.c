#include "server/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "store/owner.h"

enum { LOOK_AGAIN_US = 50000 };

/* The same for every user: a private /tmp (PrivateTmp=yes of a systemd unit) is none. */
static const char *common_dir(void)
{
    struct stat info;
    bool open_to_all = stat("/run/lock", &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & 01777) == 01777;
    return open_to_all ? "/run/lock" : "/tmp";
}

/* To lock a file it is enough to read it. Systems that protect /tmp refuse O_CREAT on what somebody else has made, so
 * it is asked for only where there is nothing; what we make others may read whatever our umask says. A pipe of that
 * name is not waited for. */
static int open_file(const char *path)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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
    char owner[4600];
    if (problem == EACCES && mg_owner_explain(path, R_OK | W_OK, owner, sizeof owner))
        fprintf(stderr,
                "magisd: the device cannot be locked: %s: let its owner make it readable (chmod 644 %s), or remove it "
                "while nobody measures\n",
                owner, path);
    else
        fprintf(stderr, "magisd: the device cannot be locked: %s: %s; remove it while nobody measures%s\n", path,
                strerror(problem), problem == ENOENT || problem == EROFS ? ", or name another --lock-dir" : "");
    return MG_LOCK_REFUSED;
}

static bool is_file(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

static bool write_path(const char *dir, const char *backend, const char *uuid, char *path, size_t room)
{
    if (strcmp(backend, "model") == 0)
        return false;
    int start = snprintf(path, room, "%.4000s/", dir ? dir : common_dir());
    snprintf(path + start, room - (size_t)start, "magisd-%.150s.lock", *uuid ? uuid : backend);
    for (char *c = path + start; *c; c++)
        if (*c == '/')
            *c = '_';
    return true;
}

enum mg_lock mg_device_lock(const char *dir, const char *backend, const char *uuid, int *fd)
{
    char path[4200];
    if (!write_path(dir, backend, uuid, path, sizeof path)) {
        *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *fd >= 0 ? MG_LOCK_OURS : refuse("/dev/null");
    }
    *fd = open_file(path);
    if (*fd < 0)
        return refuse(path);
    if (!is_file(*fd)) {
        fprintf(stderr, "magisd: the device cannot be locked: %s is no file; remove it\n", path);
        close(*fd);
        *fd = -1;
        return MG_LOCK_REFUSED;
    }
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return MG_LOCK_OURS;
    close(*fd);
    *fd = -1;
    return MG_LOCK_TAKEN;
}

/* ---- waiting ---- */

/* The process that holds the file's lock, as the system tells; 0: it does not. */
static long holder_of(const char *path)
{
    struct stat info;
    char line[256], place[64];
    long found = 0;
    FILE *locks = stat(path, &info) == 0 ? fopen("/proc/locks", "re") : NULL;
    if (!locks)
        return 0;
    snprintf(place, sizeof place, " %02x:%02x:%llu ", major(info.st_dev), minor(info.st_dev),
             (unsigned long long)info.st_ino);
    while (found <= 0 && fgets(line, sizeof line, locks)) {
        const char *writer = strstr(line, " WRITE ");
        if (writer && strstr(line, ": FLOCK ") && strstr(writer, place))
            found = strtol(writer + strlen(" WRITE "), NULL, 10);
    }
    fclose(locks);
    return found > 0 ? found : 0;
}

static void say_waiting(const char *who, const char *dir, const struct mg_engine_properties *device)
{
    char path[4200];
    long pid = write_path(dir, device->backend, device->uuid, path, sizeof path) ? holder_of(path) : 0;
    fprintf(stderr, "%s: another process ", who);
    if (pid)
        fprintf(stderr, "(%ld) ", pid);
    fprintf(stderr, "measures on %s; waiting until it is done\n", device->device);
}

enum mg_lock mg_device_lock_wait(const char *who, const char *dir, const struct mg_engine_properties *device,
                                 bool (*stop)(void *context), void *context, int *fd)
{
    enum mg_lock lock;
    bool said = false;
    while ((lock = mg_device_lock(dir, device->backend, device->uuid, fd)) == MG_LOCK_TAKEN &&
           !(stop && stop(context))) {
        if (!said)
            say_waiting(who, dir, device);
        said = true;
        usleep(LOOK_AGAIN_US);
    }
    return lock;
}
