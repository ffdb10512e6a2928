/* For commands that work on a directory: a daemon of our own on it, for as long as it takes, which serves timings alone
 * and leaves jobs as they are. */
#ifndef MG_SERVER_OWN_DAEMON_H
#define MG_SERVER_OWN_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

struct mg_own_daemon {
    pid_t pid;
    char place[4200]; /* what to call as a server: unix:DIR/timings.sock */
};
/* False after having said why: `command` is what the message begins with. */
bool mg_own_daemon_open(struct mg_own_daemon *own, const char *dir, const char *command);
void mg_own_daemon_close(struct mg_own_daemon *own); /* also one that is all zero */

#endif
