#include "server/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

void mg_interrupt_catch(int signal, bool once)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = once ? (int)SA_RESETHAND : 0};
    sigaction(signal, &action, NULL);
}

bool mg_interrupted(void)
{
    return interrupted != 0;
}
