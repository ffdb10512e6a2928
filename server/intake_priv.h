/* Intake's parts: the queue of questions (intake.c), the children who answer them (intake_child.c), and the look-up of
 * the classes of devices that they name (intake_class.c). */
#ifndef MG_SERVER_INTAKE_PRIV_H
#define MG_SERVER_INTAKE_PRIV_H

#include "server/intake.h"
#include "server/wire.h"

enum { MG_INTAKE_CHILDREN = 8 };

struct mg_ask {
    struct mg_ask *next;
    struct mg_wire_question question;
    int in, out;
    mg_reply_cb done; /* NULL: forgotten */
    void *context;
    bool asked_again;
};
struct mg_intake_child {
    struct mg_intake *intake;
    uv_process_t process;
    uv_poll_t poll;
    uv_timer_t timer; /* patience while busy, pause while dead */
    int socket;
    struct mg_ask *current;
    bool alive, poll_open;
    uint64_t born;
};
struct mg_ask_line {
    struct mg_ask *first, **last;
};
struct mg_intake {
    struct mg_intake_config config;
    char *executable, *data_dir;
    struct mg_intake_child child[MG_INTAKE_CHILDREN];
    struct mg_ask_line awaited, later; /* later: nobody waits for the answer */
    struct mg_ask_line looked_up;      /* whose device class the store is asked for */
    struct mg_ask_line refused;        /* about to be told so */
    size_t queued;                     /* in all but the refused */
    uint64_t next_id;
    uint64_t answered, failed, deaths;
    bool closing;
    unsigned open_handles;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- intake.c ---- */
/* Answers the question and frees it. */
void mg_intake_conclude(mg_intake *intake, struct mg_ask *ask, struct mg_reply *reply);
void mg_intake_conclude_problem(mg_intake *intake, struct mg_ask *ask, const char *problem, const char *detail);
void mg_intake_append(struct mg_ask_line *line, struct mg_ask *ask);
/* NULL: it is not in the line. */
struct mg_ask *mg_intake_take(struct mg_ask_line *line, mg_ticket ticket);
/* The question waits for a child. */
void mg_intake_line_up(mg_intake *intake, struct mg_ask *ask);
/* The question was handed over in vain: it is the next one again. */
void mg_intake_put_back(mg_intake *intake, struct mg_ask *ask);
/* Gives idle children what there is to do. */
void mg_intake_dispatch(mg_intake *intake);

/* ---- intake_class.c ---- */
/* The question is asked again once its device class is known. */
void mg_intake_look_up(mg_intake *intake, struct mg_ask *ask, const char *class_id);

/* ---- intake_child.c ---- */
void mg_intake_child_open(mg_intake *intake, struct mg_intake_child *child);
/* False: it cannot take the question now. */
bool mg_intake_child_ask(struct mg_intake_child *child, struct mg_ask *ask);
void mg_intake_child_close(struct mg_intake_child *child);

#endif
