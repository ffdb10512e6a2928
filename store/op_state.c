/* The states of a job: claim, wait, requeue, cancel, finish, recover. Each change is one transaction with its events.
 *
 * validating -> queued -> (waiting) -> running -> succeeded | failed | cancelled; running -> cancelling -> cancelled;
 * running -> queued after a crash, a drain, or where no worker could be started. A worker may die under a job once; the
 * second death ends it. A job that was running at three unclean starts of the daemon fails: it may be what kills it. */
#include "store/store_priv.h"

enum { CRASHES_MAX = 2, UNCLEAN_STARTS_MAX = 3 };

#define IN(state) (1u << (state))

static const char UNCLEAN_ERROR[] =
    "{\"type\":\"/errors/unclean-stops\",\"title\":\"The daemon stopped uncleanly three times while this job ran\","
    "\"status\":500,\"detail\":\"It may be what ends the daemon, by the memory it takes for example, and is not "
    "started "
    "again by itself. Look into the daemon's log and the kernel's for the cause, then retry the job.\"}";

/* The job if its state is one of `states`; otherwise the operation has failed. */
static struct mg_store_job *find_in(struct mg_op *op, struct mg_db *db, uint32_t states)
{
    struct mg_store_job *job = mg_job_find(op, db, op->args.id);
    if (job && !(states & IN(job->state))) {
        op->result.job = job;
        mg_op_fail(op, MG_STORE_CONFLICT, "job %s is %s", job->id, mg_job_state_name(job->state));
        return NULL;
    }
    return job;
}

static void announce(struct mg_op *op, struct mg_db *db, struct mg_store_job *job, enum mg_job_state state)
{
    job->state = state;
    mg_job_state_events(op, db, job);
    mg_job_result(op, db, job->number);
}

void mg_op_run_claim(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = find_in(op, db, IN(MG_JOB_QUEUED) | IN(MG_JOB_WAITING));
    if (job) {
        MG_RUN(db, CLAIM, mg_int(job->number), mg_int(mg_store_now(op->store)), mg_int_or_null(op->args.number, 0));
        announce(op, db, job, MG_JOB_RUNNING);
    }
}

void mg_op_run_set_waiting(struct mg_op *op, struct mg_db *db)
{
    enum mg_job_state to = op->args.flag ? MG_JOB_WAITING : MG_JOB_QUEUED;
    struct mg_store_job *job = find_in(op, db, IN(op->args.flag ? MG_JOB_QUEUED : MG_JOB_WAITING));
    if (job) {
        MG_RUN(db, SET_STATE, mg_int(job->number), mg_text(mg_job_state_name(to)));
        announce(op, db, job, to);
    }
}

/* job->state, outcome, stopped_by are the end's. */
static void end_job(struct mg_op *op, struct mg_db *db, struct mg_store_job *job, const char *error)
{
    MG_RUN(db, END, mg_int(job->number), mg_text(mg_job_state_name(job->state)), mg_int(mg_store_now(op->store)),
           mg_text(mg_job_outcome_name(job->outcome)), mg_text(mg_job_stop_name(job->stopped_by)), mg_text(error));
    MG_RUN(db, DROP_BODY, mg_int(job->number));
    MG_RUN(db, NUMBER_FRONT, mg_int(job->number));
    MG_RUN(db, NUMBER_ORIGINAL, mg_int(job->number));
    announce(op, db, job, job->state);
}

static void end_cancelled(struct mg_op *op, struct mg_db *db, struct mg_store_job *job)
{
    job->state = MG_JOB_CANCELLED;
    job->stopped_by = MG_STOP_CANCELLED;
    end_job(op, db, job, NULL);
}

/* A worker or the daemon died under a running job. */
static void back_to_queue(struct mg_op *op, struct mg_db *db, struct mg_store_job *job, enum mg_requeue_cause cause,
                          bool unclean, const char *error)
{
    bool crash = cause == MG_REQUEUE_CRASH;
    if (job->crashes + crash >= CRASHES_MAX || job->unclean_starts + unclean >= UNCLEAN_STARTS_MAX) {
        MG_RUN(db, END_CRASHED, mg_int(job->number), mg_int(crash), mg_int(unclean));
        job->state = MG_JOB_FAILED;
        end_job(op, db, job, error);
        return;
    }
    MG_RUN(db, REQUEUE, mg_int(job->number), mg_int(mg_store_now(op->store)), mg_int(crash), mg_int(unclean),
           mg_int(cause == MG_REQUEUE_UNSTARTED));
    announce(op, db, job, MG_JOB_QUEUED);
}

void mg_op_run_requeue(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_job *job = find_in(op, db, IN(MG_JOB_RUNNING) | IN(MG_JOB_CANCELLING));
    if (!job) {
        return;
    }
    if (job->state == MG_JOB_CANCELLING) {
        end_cancelled(op, db, job);
    } else if (op->args.cause == MG_REQUEUE_CRASH && !op->args.text) {
        mg_op_fail(op, MG_STORE_INVALID, "a crash comes with a problem document");
    } else {
        back_to_queue(op, db, job, op->args.cause, false, op->args.text);
    }
}

void mg_op_run_cancel(struct mg_op *op, struct mg_db *db)
{
    uint32_t unfinished = IN(MG_JOB_SUCCEEDED) - 1;
    struct mg_store_job *job = find_in(op, db, unfinished);
    if (!job) {
        return;
    }
    if (job->state == MG_JOB_CANCELLING) {
        op->result.job = job;
    } else if (job->state == MG_JOB_RUNNING) {
        MG_RUN(db, SET_STATE, mg_int(job->number), mg_text("cancelling"));
        announce(op, db, job, MG_JOB_CANCELLING);
    } else {
        end_cancelled(op, db, job);
    }
}

static void save_figures(struct mg_db *db, int64_t number, const struct mg_store_outcome *o)
{
    MG_RUN(db, END_FIGURES, mg_int(number), mg_text(o->result), mg_int(o->evaluations), mg_int(o->accepted),
           mg_int(o->rejected), mg_real(o->elapsed_s), mg_int_or_null(o->lower_bound, -1),
           mg_int_or_null(o->smallest_found, -1), mg_real(o->prices[0]), mg_real(o->prices[1]), mg_real(o->prices[2]),
           mg_real(o->prices[3]), mg_int(o->reproducible));
}

void mg_op_run_finish(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_outcome *o = op->args.outcome;
    uint32_t from =
        o->state == MG_JOB_SUCCEEDED ? IN(MG_JOB_RUNNING) | IN(MG_JOB_CANCELLING) : IN(MG_JOB_SUCCEEDED) - 1;
    if (!mg_job_state_ended(o->state) || (o->state == MG_JOB_FAILED) != (o->error != NULL)) {
        mg_op_fail(op, MG_STORE_INVALID, "an end is succeeded, cancelled, or failed with a problem document");
        return;
    }
    struct mg_store_job *job = find_in(op, db, from);
    if (!job) {
        return;
    }
    if (op->args.points) {
        mg_points_save(op, db, job->number, op->args.points);
    }
    if (o->best && MG_RUN(db, SET_BEST, mg_int(job->number), mg_text(o->best)) == 0) {
        mg_op_fail(op, MG_STORE_INVALID, "the best plan %s is not in the front", o->best);
    }
    if (!mg_op_ok(op, db)) {
        return;
    }
    save_figures(db, job->number, o);
    job->state = o->state;
    job->outcome = o->state == MG_JOB_FAILED ? MG_JOB_OUTCOME_NONE : o->outcome;
    job->stopped_by = o->stopped_by;
    end_job(op, db, job, o->error);
}

static struct mg_store_job *all_unfinished(struct mg_op *op, struct mg_db *db, size_t *n)
{
    struct mg_store_job *jobs = NULL;
    size_t capacity = 0;
    sqlite3_stmt *stmt = mg_db_bind(db, MG_STMT_UNFINISHED, NULL, 0);
    *n = 0;
    while (mg_db_row(db, stmt)) {
        mg_job_read(op, stmt, MG_PUSH(&op->arena, jobs, *n, capacity));
    }
    return jobs;
}

void mg_op_run_recover(struct mg_op *op, struct mg_db *db)
{
    size_t n;
    struct mg_store_job *jobs = all_unfinished(op, db, &n);
    for (size_t i = 0; i < n && mg_op_ok(op, db); i++) {
        if (jobs[i].state == MG_JOB_CANCELLING) {
            end_cancelled(op, db, &jobs[i]);
        } else if (jobs[i].state == MG_JOB_RUNNING) {
            back_to_queue(op, db, &jobs[i], MG_REQUEUE_DRAIN, op->store->unclean, UNCLEAN_ERROR);
        } else {
            continue;
        }
        if (op->result.job) {
            jobs[i] = *op->result.job;
        }
    }
    op->result.job = NULL;
    op->result.jobs = jobs;
    op->result.n_jobs = n;
}
