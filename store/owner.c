#include "store/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name, or the number where there is none. */
static void name_user(uid_t user, char *text, size_t size)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(user, &entry, room, sizeof room, &found) == 0 && found) {
        snprintf(text, size, "%s", found->pw_name);
    } else {
        snprintf(text, size, "user %lu", (unsigned long)user);
    }
}

static bool explain(const char *path, const struct stat *info, int need, char *text, size_t size)
{
    char owner[64], self[64];
    need |= S_ISDIR(info->st_mode) ? X_OK : 0;
    if (info->st_uid == geteuid() || faccessat(AT_FDCWD, path, need, AT_EACCESS) == 0) {
        return false;
    }
    name_user(info->st_uid, owner, sizeof owner);
    name_user(geteuid(), self, sizeof self);
    snprintf(text, size, "%s belongs to %s (mode %o), and this process runs as %s", path, owner,
             (unsigned)info->st_mode & 07777, self);
    return true;
}

/* Cuts the last name off; false: there is none. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || strcmp(path, "/") == 0) {
        return false;
    }
    slash[slash == path] = '\0';
    return true;
}

bool mg_owner_explain(const char *path, int need, char *text, size_t size)
{
    char at[PATH_MAX];
    struct stat info;
    *text = '\0';
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) {
        return false;
    }
    while (lstat(at, &info) != 0) {
        if ((errno != EACCES && errno != ENOENT) || !go_up(at)) {
            return false;
        }
    }
    return explain(at, &info, need, text, size);
}
