#include "server/child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* AddressSanitizer reserves its shadow as data, beyond any limit. */
#if defined(__SANITIZE_ADDRESS__)
enum { LIMITS_DATA = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { LIMITS_DATA = 0 };
#else
enum { LIMITS_DATA = 1 };
#endif
#else
enum { LIMITS_DATA = 1 };
#endif

static bool limit(__rlimit_resource_t what, uint64_t value)
{
    struct rlimit old;
    if (getrlimit(what, &old) != 0)
        return false;
    if (value > old.rlim_max)
        value = old.rlim_max;
    return setrlimit(what, &(struct rlimit){value, value}) == 0;
}

static void set_oom_score(int score)
{
    char text[16];
    int size = snprintf(text, sizeof text, "%d", score);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, text, (size_t)size);
    close(fd);
}

/* SCHED_IDLE besides the lowest priority: who wakes up beside a merely nice process may wait for the rest of its time
 * slice, several times from a request to its answer. Where the kernel shares the machine between services or sessions
 * (cgroups, autogroups) this decides only among the daemon's own processes. Either is a wish: without it the work is
 * the same. */
static void give_way(void)
{
    setpriority(PRIO_PROCESS, 0, 19);
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
}

bool mg_child_settle(const struct mg_child_limits *limits, long parent)
{
    /* The order matters: a parent that died before the first line is noticed by the second. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != (pid_t)parent)
        return false;
    /* A terminal tells the whole group; when a child ends is for the daemon to say. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* the write fails, and says why */
    set_oom_score(limits->oom_score);
    if (limits->background)
        give_way();
    if (!limit(RLIMIT_CORE, 0) || (limits->file_bytes && !limit(RLIMIT_FSIZE, limits->file_bytes)) ||
        (LIMITS_DATA && limits->memory_bytes && !limit(RLIMIT_DATA, limits->memory_bytes)))
        return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
