/* What an agent times may end its process: a kernel of a library that writes where it must not, the system short of
 * memory. The one that works is therefore watched by another, which does nothing but start the next one. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/agent.h"
#include "server/interrupt.h"
#include "server/options.h"

enum { CRASHES_MAX = 5 };

/* Who is told to stop by SIGTERM may be its whole group, and a second one ends the worker at once: it is passed on as
 * another signal. */
static const int PASSED_ON = SIGUSR1;

/* Returns 0 in the process that works; -1: there is none. */
static pid_t split(const sigset_t *before)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(MG_EXIT_FAILED);
    sigprocmask(SIG_SETMASK, before, NULL);
    return 0;
}

/* Until it ends: its status, as of waitpid(). */
static int watch(pid_t child, const sigset_t *heard)
{
    int status;
    for (;;) {
        int number = sigwaitinfo(heard, NULL);
        if (number == SIGCHLD && waitpid(child, &status, WNOHANG) == child)
            return status;
        if (number == SIGTERM || number == SIGINT)
            kill(child, PASSED_ON);
    }
}

/* Whether another one is to go on. */
static bool is_to_go_on(struct mg_agent *a, int status)
{
    struct mg_agent_note *n = a->note;
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == 0 || number == SIGTERM || number == SIGINT)
        return false;
    fprintf(stderr, "%s: signal %d (%s) ended the agent", a->who, number, strsignal(number));
    if (n->plan)
        fprintf(stderr, " while it executed a plan");
    else if (*n->op)
        fprintf(stderr, " while it timed %s %s", n->op, n->signature);
    bool good = (n->plan || *n->op) && ++n->crashes < CRASHES_MAX;
    fprintf(stderr, "%s\n", good ? "; that is left out, and another one goes on" : "");
    return good;
}

bool mg_agent_guard(struct mg_agent *a, int *code)
{
    sigset_t heard, before;
    int status = 0;
    a->note = mmap(NULL, sizeof *a->note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *code = MG_EXIT_FAILED;
    if (a->note == MAP_FAILED) {
        fprintf(stderr, "magisd agent: out of memory\n");
        return false;
    }
    mg_interrupt_catch(SIGTERM, true);
    mg_interrupt_catch(SIGINT, true);
    mg_interrupt_catch(PASSED_ON, false);
    signal(SIGCHLD, SIG_DFL); /* who started us may ignore it */
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, SIGTERM);
    sigaddset(&heard, SIGINT);
    sigprocmask(SIG_BLOCK, &heard, &before);
    do {
        pid_t child = split(&before);
        if (child == 0)
            return true;
        if (child < 0) {
            fprintf(stderr, "magisd agent: no process can be started\n");
            return false;
        }
        status = watch(child, &heard);
    } while (is_to_go_on(a, status));
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : MG_EXIT_FAILED;
    return false;
}
