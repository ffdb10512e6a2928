/* Ctrl-C and SIGTERM as a flag: what runs ends when it looks, and hands over what it has. */
#ifndef MG_SERVER_INTERRUPT_H
#define MG_SERVER_INTERRUPT_H

#include <stdbool.h>

/* `once`: the second such signal ends the process as usual. */
void mg_interrupt_catch(int signal, bool once);
bool mg_interrupted(void);

#endif
