#include "server/own_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 30000, STEP_MS = 10 };

static _Noreturn void become(const struct mg_own_daemon *own, const char *dir, const char *port, int words)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);                    /* Ctrl-C is for the command, which ends us when it is done, */
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* or dies */
    dup2(null, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    execl("/proc/self/exe", "magisd", "timings-daemon", dir, own->place, port, (char *)NULL);
    _exit(127);
}

/* What it said beside its log, the lines of which are JSON. */
static void repeat_words(int words, const char *command)
{
    char line[4600];
    FILE *file = words >= 0 && lseek(words, 0, SEEK_SET) == 0 ? fdopen(words, "r") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (*line != '{')
            fprintf(stderr, "magisd %s: %s", command, strncmp(line, "magisd: ", 8) == 0 ? line + 8 : line);
    if (file)
        fclose(file);
}

static bool wait_for(struct mg_own_daemon *own, const char *port)
{
    for (unsigned waited = 0; access(port, F_OK) != 0; waited += STEP_MS) {
        if (waitpid(own->pid, NULL, WNOHANG) != 0) {
            own->pid = 0;
            return false;
        }
        if (waited >= WAIT_MS)
            return false;
        usleep(STEP_MS * 1000);
    }
    return true;
}

bool mg_own_daemon_open(struct mg_own_daemon *own, const char *dir, const char *command)
{
    char port[4200];
    int words = memfd_create("words", MFD_CLOEXEC);
    snprintf(own->place, sizeof own->place, "unix:%.4000s/timings.sock", dir);
    snprintf(port, sizeof port, "%.4000s/timings.address", dir);
    unlink(port);
    own->pid = fork();
    if (own->pid == 0)
        become(own, dir, port, words);
    bool good = own->pid > 0 && wait_for(own, port);
    if (good) {
        unlink(port);
        close(words);
        return true;
    }
    repeat_words(words, command);
    fprintf(stderr,
            "magisd %s: --data %s cannot be used; where a daemon runs on it, ask that by --server URL instead\n",
            command, dir);
    mg_own_daemon_close(own);
    return false;
}

void mg_own_daemon_close(struct mg_own_daemon *own)
{
    if (own->pid > 0) {
        kill(own->pid, SIGTERM);
        waitpid(own->pid, NULL, 0);
    }
    own->pid = 0;
}
