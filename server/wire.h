/* Between the daemon and an intake process: datagrams on a SOCK_SEQPACKET socketpair, with memfds
 * beside them. Both ends are the same binary, so structs travel as they are. */
#ifndef MG_SERVER_WIRE_H
#define MG_SERVER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MG_WIRE_ARGS = 16384, MG_WIRE_PARTS = 3, MG_WIRE_FD = 3 };

struct mg_wire_question {
    uint64_t id;
    uint32_t kind; /* enum mg_intake_kind */
    uint32_t gzip;
    uint64_t body_size;                /* of the posted body, or 0 */
    uint64_t part_size[MG_WIRE_PARTS]; /* otherwise the memfd holds these one after the other */
    uint64_t max_body;                 /* after decoding */
    char class_id[20];                 /* a device class that the request names, once it was looked up, */
    char class_model[208];             /* and its device's name */
    char args[MG_WIRE_ARGS];           /* a small JSON object, or ""; last, for only its text is sent */
};
/* The output memfd holds body_size bytes of the result, then meta_size bytes of JSON about it: for a
 * problem {"problem", "pointer", "detail", "members"?}. */
struct mg_wire_answer {
    uint64_t id;
    uint32_t failed;
    uint64_t body_size, meta_size;
};

/* False with errno set; EAGAIN: try later. fds[0]: input, fds[1]: output. */
bool mg_wire_ask(int socket, const struct mg_wire_question *question, const int fds[2]);
/* 1: a question; 0: the peer has gone; -1: error. */
int mg_wire_hear(int socket, struct mg_wire_question *question, int fds[2]);

#endif
