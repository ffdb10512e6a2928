/* Plans measured as wholes: who asked, which agent is at it, what it found.
 *
 * Part of the store's interface; the rules of store.h hold. A wish is leased to one agent at a time; that the agent is
 * measuring, on a device of the same class (mg_store_put_agent), renews the lease, and it may give the wish back. An
 * agent that asks again gets its own one back, for it has lost it. After MG_MEASURED_ATTEMPTS leases without an answer
 * a wish fails: such a plan ends its agents. Every change raises the revision of the job.
 */
#ifndef MG_STORE_MEASURED_H
#define MG_STORE_MEASURED_H

#include "store/store.h"

enum {
    MG_MEASURED_LEASE_MS = 600000,
    MG_MEASURED_ATTEMPTS = 5,
    MG_MEASURED_OPEN = 200, /* wishes of one job that wait */
};
enum mg_measured_state { MG_MEASURED_WANTED = 0, MG_MEASURED_MEASURING, MG_MEASURED_DONE, MG_MEASURED_FAILED };
const char *mg_measured_state_name(enum mg_measured_state state); /* wanted, measuring, done, failed */
int mg_measured_state_parse(const char *name);

struct mg_measured {
    int64_t number;
    char job[MG_JOB_ID_LEN + 1], plan[MG_PLAN_ID_LEN + 1];
    const char *models; /* on which devices, JSON array of names and "class:<id>"; []: any */
    const char *asked_by;
    int64_t asked_at;
    enum mg_measured_state state;
    const char *agent, *host, *class_id, *model; /* "" until an agent has it */
    const char *reason;                          /* why it failed */
    int64_t at;                                  /* when the answer came */
    int attempts;
    uint32_t runs;
    double latency_s, mad_s; /* median of the runs, and its deviation */
    double operators_s;      /* predicted from its operators, timed there; 0: not all can be timed */
    int64_t peak, arena, host_bytes;
    bool busy; /* somebody else used the device */
};

/* which: as for mg_store_get_plan. models NULL: those of the job. An equal wish that waits is given back.
 * result.measured[0], result.job, result.count: how many agents have such a device. NOT_FOUND (result.job: there is no
 * such plan), GONE, INVALID: `models` names a class that is unknown, CONFLICT: too many wait. */
void mg_store_want_measured(mg_store *store, const char *id, const char *which, const char *models, const char *token,
                            mg_store_cb *cb, void *ctx);
/* The oldest wish that this agent's device can fulfil; a model of one (back end "model") cannot fulfil a wish for any
 * device. result.measured[0] and its job, or none. NOT_FOUND: no such
 * agent; CONFLICT: it belongs to another token. */
void mg_store_claim_measured(mg_store *store, const char *agent, const char *token, bool any_agent, mg_store_cb *cb,
                             void *ctx);
/* The answer to wish `number`: state (DONE, FAILED, or WANTED: given back), reason, host and figures are read; an
 * answer that is there changes nothing. CONFLICT: another agent has it. */
void mg_store_add_measured(mg_store *store, const char *agent, const char *token, bool any_agent,
                           const struct mg_measured *answer, mg_store_cb *cb, void *ctx);
/* Of a job, oldest first; which NULL: of all its plans. mg_store_get_front() gives them too. */
void mg_store_list_measured(mg_store *store, const char *id, const char *which, mg_store_cb *cb, void *ctx);

#endif
