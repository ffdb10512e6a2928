/* Timings as they come in: classes, agents, batches, rows, and which rows are believed.
 *
 * A row is a suspect where it is faster than the device can be, outside 1/5 ... 5 times what the model says scaled by
 * the ratios of its kind, of a batch whose canary was slow, or where no profile names the device, so that nothing says
 * what to expect; it becomes valid when somebody else, or the same on another day, agrees within three deviations.
 * Somebody else is another agent, of another token where there are tokens; days are those on which a batch came here,
 * since what it says of its time anybody may write. A deviation counts up to a tenth of the smaller of both times: who
 * measured badly, or says so, does not agree with everything.
 * The ratios are the last ones accepted of that class and kind, or of another class of the same model of device; where
 * there are fewer than three the model itself judges, never what comes with the row: the first rows of a kind would
 * vouch for themselves. Nor can one agent lead the ratios away step by step: beyond the model's own band only what
 * somebody confirmed is remembered. Rows that nothing could judge are judged when they are sent again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store_priv.h"

enum { RATIOS = 101, FEWEST_RATIOS = 3, MINUTE_MS = 60000 };
static const double BAND = 5, CANARY_SLACK = 1.05, DRIFT_SLACK = 0.05, SPREAD_SHARE = 0.1;
static const int64_t DAY_MS = 24 * 3600 * 1000;

/* The last ratios measured / model of one kind. */
struct kind {
    const char *op;
    double last[RATIOS];
    size_t count; /* in `last` */
    double scale;
    bool changed;
};
struct adding {
    struct mg_op *op;
    struct mg_db *db;
    const struct mg_timing_batch *batch;
    int64_t class, family, agent, batch_id, now, at, generation; /* generation: 0 until one is needed */
    bool distrusted, leases;
    int64_t highest; /* rows of a batch that is new cannot be known beyond this number */
    struct kind *kinds;
    size_t kind_count, kind_capacity;
    struct mg_store_timings *answer;
};

int64_t mg_timing_number(struct mg_db *db, sqlite3_stmt *stmt, int64_t none)
{
    int64_t value = none;
    if (mg_db_row(db, stmt)) {
        value = sqlite3_column_int64(stmt, 0);
        mg_db_end(stmt);
    }
    return value;
}

/* ---- classes, agents, signatures ---- */

int64_t mg_timing_class_number(struct mg_op *op, struct mg_db *db, const struct mg_timing_class *class)
{
    int64_t id = mg_timing_number(db, MG_BIND(db, CLASS_BY_HASH, mg_text(class->id)), 0);
    if (id == 0) {
        MG_RUN(db, ADD_CLASS, mg_text(class->id), mg_text(class->model), mg_text(class->key),
               mg_int(mg_store_now(op->store)));
        id = mg_timing_number(db, MG_BIND(db, CLASS_BY_HASH, mg_text(class->id)), 0);
    }
    return id;
}

int64_t mg_timing_signature_number(struct mg_db *db, struct mg_hash128 key, const char *name, const char *text,
                                   bool *fresh)
{
    uint64_t words[2] = {key.lo, key.hi};
    struct mg_val bytes = mg_bytes((struct mg_blob){words, sizeof words});
    int64_t id = mg_timing_number(db, MG_BIND(db, SIGNATURE_BY_KEY, bytes), 0);
    *fresh = id == 0;
    if (*fresh) {
        id = MG_RUN(db, ADD_SIGNATURE, bytes, mg_text(name), mg_text(text)) ? sqlite3_last_insert_rowid(db->handle) : 0;
    }
    return id;
}

/* Whether the agent that the statement is at, of AGENT_BY_NAME, lives on another device than this one. */
static bool lives_elsewhere(sqlite3_stmt *stmt, const struct mg_timing_agent *agent, int64_t now)
{
    const char *uuid = (const char *)sqlite3_column_text(stmt, 6), *state = (const char *)sqlite3_column_text(stmt, 7);
    bool alive = strcmp(state, MG_TIMING_ENDED) != 0 && now - sqlite3_column_int64(stmt, 8) < MG_TIMING_LEASE_MS;
    return alive && agent->uuid && *agent->uuid && *uuid && strcmp(uuid, agent->uuid) != 0;
}

/* The agent's number; fails as CONFLICT if it belongs to another token, or lives on another device. */
static int64_t agent_number(struct mg_op *op, struct mg_db *db, const struct mg_timing_agent *agent, int64_t class)
{
    int64_t now = mg_store_now(op->store);
    sqlite3_stmt *stmt = MG_BIND(db, AGENT_BY_NAME, mg_text(agent->name));
    if (mg_db_row(db, stmt)) {
        int64_t id = sqlite3_column_int64(stmt, 0);
        const char *token = (const char *)sqlite3_column_text(stmt, 1);
        bool ours = agent->any_agent || !token || !*token || strcmp(token, agent->token) == 0;
        bool elsewhere = lives_elsewhere(stmt, agent, now);
        mg_db_end(stmt);
        if (!ours) {
            mg_op_fail(op, MG_STORE_CONFLICT, "the agent %s belongs to another token", agent->name);
        } else if (elsewhere) {
            mg_op_fail(
                op, MG_STORE_CONFLICT,
                "an agent %s lives on another device: give this one a name of its own with --name, or wait until "
                "that one has been silent for %d s",
                agent->name, MG_TIMING_LEASE_MS / 1000);
        }
        return id;
    }
    MG_RUN(db, ADD_AGENT, mg_text(agent->name), mg_int(class), mg_text(agent->host), mg_text(agent->version),
           mg_text(agent->uuid ? agent->uuid : ""), mg_text("new"), mg_text(agent->token), mg_int(now));
    return mg_timing_number(db, MG_BIND(db, AGENT_BY_NAME, mg_text(agent->name)), 0);
}

static double card_canary(struct mg_op *op, struct mg_db *db, const struct mg_timing_agent *agent, int64_t class)
{
    int64_t since = mg_store_now(op->store) - MG_TIMING_CANARY_DAYS * DAY_MS;
    double seconds = 0;
    if (!*agent->uuid || strchr(agent->uuid, '/')) { /* a place is no card */
        return 0;
    }
    sqlite3_stmt *stmt =
        MG_BIND(db, CARD_CANARY, mg_text(agent->uuid), mg_int(class), mg_text(agent->token), mg_int(since));
    if (mg_db_row(db, stmt)) {
        seconds = sqlite3_column_double(stmt, 0);
        mg_db_end(stmt);
    }
    return seconds;
}

void mg_op_run_put_agent(struct mg_op *op, struct mg_db *db)
{
    const struct mg_timing_agent *agent = op->args.agent;
    int64_t class = mg_timing_class_number(op, db, &agent->class), id = agent_number(op, db, agent, class);
    if (mg_op_ok(op, db)) {
        MG_RUN(db, TOUCH_AGENT, mg_int(id), mg_int(class), mg_text(agent->host), mg_text(agent->version),
               mg_text(agent->uuid), mg_text(agent->state), mg_int(mg_store_now(op->store)), mg_real(agent->canary_s));
    }
    if (mg_op_ok(op, db) && strcmp(agent->state, "measuring") == 0) {
        MG_RUN(db, RENEW_MEASURED, mg_int(id), mg_int(class), mg_int(mg_store_now(op->store) + MG_MEASURED_LEASE_MS));
    }
    struct mg_store_timings *answer = MG_NEW(&op->arena, struct mg_store_timings);
    answer->class = agent->class;
    answer->canary_s = agent->canary_s > 0 ? agent->canary_s : card_canary(op, db, agent, class);
    op->result.timings = answer;
}

/* ---- what is believed ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower median of the list, which is sorted; 0 where there are too few. */
static double median_of(double *list, size_t count)
{
    if (count < FEWEST_RATIOS) {
        return 0;
    }
    qsort(list, count, sizeof *list, by_value);
    return list[(count - 1) / 2];
}

/* The ratios that the statement finds, and how many. */
static size_t read_ratios(struct mg_db *db, sqlite3_stmt *stmt, double ratios[RATIOS])
{
    size_t size = 0;
    if (mg_db_row(db, stmt)) {
        size = (size_t)sqlite3_column_bytes(stmt, 0);
        size = size < RATIOS * sizeof *ratios ? size : RATIOS * sizeof *ratios;
        memcpy(ratios, sqlite3_column_blob(stmt, 0), size);
        mg_db_end(stmt);
    }
    return size / sizeof *ratios;
}

/* By what the model's times of this kind are multiplied. */
static double scale_of(const struct adding *a, const struct kind *kind)
{
    double sorted[RATIOS];
    memcpy(sorted, kind->last, sizeof sorted);
    double scale = median_of(sorted, kind->count);
    if (scale == 0) {
        sqlite3_stmt *stmt = MG_BIND(a->db, GET_FAMILY_RATIOS, mg_int(a->family), mg_text(kind->op), mg_int(a->class));
        scale = median_of(sorted, read_ratios(a->db, stmt, sorted));
    }
    return scale > 0 ? scale : 1;
}

static struct kind *kind_of(struct adding *a, const char *op)
{
    for (size_t i = 0; i < a->kind_count; i++) {
        if (strcmp(a->kinds[i].op, op) == 0) {
            return &a->kinds[i];
        }
    }
    struct kind *kind = MG_PUSH(&a->op->arena, a->kinds, a->kind_count, a->kind_capacity);
    kind->op = op;
    kind->count = read_ratios(a->db, MG_BIND(a->db, GET_RATIOS, mg_int(a->class), mg_text(op)), kind->last);
    kind->scale = scale_of(a, kind);
    return kind;
}

static bool is_near(double seconds, double expected)
{
    return seconds >= expected / BAND && seconds <= expected * BAND;
}

static void remember_ratio(struct kind *kind, const struct mg_timing_row *row, bool confirmed)
{
    if (row->model_s <= 0 || !(confirmed || is_near(row->median_s, row->model_s))) {
        return;
    }
    if (kind->count == RATIOS) {
        memmove(kind->last, kind->last + 1, (RATIOS - 1) * sizeof kind->last[0]);
        kind->count--;
    }
    kind->last[kind->count++] = row->median_s / row->model_s;
    kind->changed = true;
}

static void save_ratios(struct adding *a)
{
    for (size_t i = 0; i < a->kind_count; i++) {
        const struct kind *kind = &a->kinds[i];
        if (kind->changed) {
            MG_RUN(a->db, SET_RATIOS, mg_int(a->class), mg_text(kind->op),
                   mg_bytes((struct mg_blob){kind->last, kind->count * sizeof kind->last[0]}));
        }
    }
}

static bool looks_wrong(const struct adding *a, const struct mg_timing_row *row, const struct kind *kind)
{
    return a->distrusted || row->throttled || row->median_s < row->floor_s || row->model_s <= 0 ||
           !is_near(row->median_s, row->model_s * kind->scale);
}

/* What else is known of the signature in this class. */
struct others {
    int64_t agreeing[16]; /* suspects that this row confirms */
    size_t agreeing_count;
    bool confirmed; /* somebody independent agrees */
    bool any_valid;
    double newest_s, newest_mad;
};

/* How far apart both times are, in deviations. */
static double deviations(const struct mg_timing_row *row, double median, double mad)
{
    double spread = mad > row->mad_s ? mad : row->mad_s;
    double most = SPREAD_SHARE * (median < row->median_s ? median : row->median_s);
    double away = fabs(median - row->median_s);
    spread = spread < most ? spread : most;
    return away == 0 ? 0 : away / spread;
}

/* Whether the row that the statement is at does not come from who posts now, or came on another day. */
static bool is_independent(const struct adding *a, sqlite3_stmt *stmt)
{
    int64_t agent = sqlite3_column_int64(stmt, 1), received_at = sqlite3_column_int64(stmt, 4);
    const char *token = (const char *)sqlite3_column_text(stmt, 6), *ours = a->batch->token;
    bool same_token = token && *token && ours && strcmp(token, ours) == 0;
    return (agent != a->agent && !same_token) || received_at / DAY_MS != a->now / DAY_MS;
}

static void look_at_other(const struct adding *a, const struct mg_timing_row *row, sqlite3_stmt *stmt,
                          struct others *others)
{
    double median = sqlite3_column_double(stmt, 2), mad = sqlite3_column_double(stmt, 3);
    bool suspect = sqlite3_column_type(stmt, 5) == SQLITE_NULL;
    if (!suspect && !others->any_valid) {
        others->any_valid = true;
        others->newest_s = median;
        others->newest_mad = mad;
    }
    if (!is_independent(a, stmt) || deviations(row, median, mad) > 3) {
        return;
    }
    others->confirmed = true;
    if (suspect && others->agreeing_count < 16) {
        others->agreeing[others->agreeing_count++] = sqlite3_column_int64(stmt, 0);
    }
}

static struct others find_others(struct adding *a, const struct mg_timing_row *row, int64_t signature)
{
    struct others others = {.any_valid = false};
    sqlite3_stmt *stmt = MG_BIND(a->db, OTHER_ROWS, mg_int(a->family), mg_int(signature), mg_int(a->class));
    while (mg_db_row(a->db, stmt)) {
        look_at_other(a, row, stmt, &others);
    }
    return others;
}

/* ---- rows ---- */

/* The batch's generation: one more than any before. */
static int64_t generation_of(struct adding *a)
{
    if (a->generation == 0) {
        a->generation = mg_timing_generation(a->db) + 1;
        mg_timing_set_generation(a->op, a->db, a->generation);
        MG_RUN(a->db, SET_CLASS_GENERATION, mg_int(a->class), mg_int(a->generation));
    }
    return a->generation;
}

static bool drifts(const struct mg_timing_row *row, const struct others *others)
{
    return others->any_valid && deviations(row, others->newest_s, others->newest_mad) > 3 &&
           fabs(row->median_s - others->newest_s) > DRIFT_SLACK * others->newest_s;
}

/* A failure is in no snapshot: it makes no generation. */
static struct mg_val valid_from(struct adding *a, const struct mg_timing_row *row, bool suspect)
{
    if (row->status != MG_TIMING_OK) {
        return mg_int(mg_timing_generation(a->db));
    }
    return mg_int_or_null(suspect ? 0 : generation_of(a), 0);
}

static void insert_row(struct adding *a, const struct mg_timing_row *row, int64_t signature, bool suspect, bool drift)
{
    const struct mg_val values[] = {mg_int(a->batch_id),   mg_int(row->row),        mg_int(a->family),
                                    mg_int(a->class),      mg_int(signature),       mg_int(a->agent),
                                    mg_int(row->status),   mg_int(row->n),          mg_real(row->median_s),
                                    mg_real(row->mad_s),   mg_real(row->min_s),     mg_int((int64_t)row->workspace),
                                    mg_real(row->model_s), mg_real(row->clock_mhz), mg_int(row->throttled),
                                    mg_int(a->at),         mg_int(drift),           valid_from(a, row, suspect)};
    mg_db_run(a->db, MG_STMT_ADD_ROW, values, sizeof values / sizeof values[0]);
}

static void confirm(struct adding *a, const struct others *others)
{
    for (size_t i = 0; i < others->agreeing_count; i++) {
        MG_RUN(a->db, CONFIRM_ROW, mg_int(others->agreeing[i]), mg_int(generation_of(a)));
        a->answer->confirmed++;
    }
}

static void add_measured(struct adding *a, const struct mg_timing_row *row, int64_t signature, bool fresh)
{
    struct kind *kind = kind_of(a, row->op);
    struct others others = fresh ? (struct others){.any_valid = false} : find_others(a, row, signature);
    bool suspect = looks_wrong(a, row, kind) && !others.confirmed;
    insert_row(a, row, signature, suspect, !suspect && drifts(row, &others));
    a->answer->suspect += suspect;
    a->answer->unjudged += suspect && row->model_s <= 0;
    if (!suspect) {
        confirm(a, &others);
        remember_ratio(kind, row, others.confirmed);
    }
}

/* A row that is there, sent again as it is; no profile named its device when it came. */
static void judge_late(struct adding *a, const struct mg_timing_row *row, int64_t id)
{
    struct kind *kind = kind_of(a, row->op);
    bool suspect = looks_wrong(a, row, kind);
    a->answer->unjudged += row->model_s <= 0;
    MG_RUN(a->db, JUDGE_ROW, mg_int(id), mg_real(row->model_s), mg_int_or_null(suspect ? 0 : generation_of(a), 0));
    if (!suspect) {
        a->answer->confirmed++;
        remember_ratio(kind, row, false);
    }
}

/* Whether the batch has the row: ABSENT, JUDGED, or the row's number if nothing could judge it. Rows come in order,
 * mostly, and those of a new batch need not be looked up. */
enum { ABSENT = -1, JUDGED = 0 };
static int64_t find_row(struct adding *a, const struct mg_timing_row *row)
{
    if ((int64_t)row->row > a->highest) {
        a->highest = row->row;
        return ABSENT;
    }
    uint64_t key[2] = {row->key.lo, row->key.hi};
    return mg_timing_number(a->db,
                            MG_BIND(a->db, FIND_ROW, mg_int(a->batch_id), mg_int(row->row), mg_real(row->median_s),
                                    mg_int(row->throttled), mg_int(a->class),
                                    mg_bytes((struct mg_blob){key, sizeof key})),
                            ABSENT);
}

static void add_row(struct adding *a, const struct mg_timing_row *row)
{
    bool fresh; /* nobody can have measured what had no signature */
    int64_t there = find_row(a, row);
    if (there != ABSENT) {
        a->answer->known++;
        if (there != JUDGED) {
            judge_late(a, row, there);
        }
        return;
    }
    int64_t signature = mg_timing_signature_number(a->db, row->key, row->op, row->signature, &fresh);
    if (row->status == MG_TIMING_OK) {
        add_measured(a, row, signature, fresh);
    } else {
        insert_row(a, row, signature, false, false);
    }
    if (a->leases) {
        MG_RUN(a->db, DROP_LEASE, mg_int(a->class), mg_int(signature));
    }
    a->answer->added++;
}

/* ---- batches ---- */

static bool is_distrusted(const struct mg_timing_batch *b)
{
    double slow = b->canary_before_s > b->canary_after_s ? b->canary_before_s : b->canary_after_s;
    return b->busy || (b->canary_best_s > 0 && slow > CANARY_SLACK * b->canary_best_s);
}

/* Of a batch that is known, what was said of it at first counts too. 0: it is new. */
static int64_t known_batch(struct adding *a)
{
    sqlite3_stmt *stmt = MG_BIND(a->db, BATCH_BY_NAME, mg_int(a->agent), mg_text(a->batch->batch));
    if (!mg_db_row(a->db, stmt)) {
        return 0;
    }
    int64_t id = sqlite3_column_int64(stmt, 0);
    const struct mg_timing_batch before = {.canary_before_s = sqlite3_column_double(stmt, 1),
                                           .canary_after_s = sqlite3_column_double(stmt, 2),
                                           .canary_best_s = sqlite3_column_double(stmt, 3),
                                           .busy = sqlite3_column_int(stmt, 4) != 0};
    a->distrusted = a->distrusted || is_distrusted(&before);
    mg_db_end(stmt);
    return id;
}

static int64_t batch_number(struct adding *a)
{
    const struct mg_timing_batch *b = a->batch;
    int64_t id = known_batch(a);
    a->highest = id == 0 ? -1 : INT64_MAX;
    if (id == 0) {
        id = mg_timing_number(a->db,
                              MG_BIND(a->db, ADD_BATCH, mg_int(a->agent), mg_text(b->batch), mg_int(a->class),
                                      mg_text(b->host), mg_text(b->version), mg_text(b->token), mg_int(a->at),
                                      mg_int(a->now), mg_real(b->canary_before_s), mg_real(b->canary_after_s),
                                      mg_real(b->canary_best_s), mg_int(b->busy)),
                              0);
    }
    return id;
}

static void add_batch(struct mg_op *op, struct mg_db *db, const struct mg_timing_batch *batch,
                      struct mg_store_timings *answer)
{
    struct adding a = {.op = op, .db = db, .batch = batch, .answer = answer};
    int64_t before = answer->added;
    const struct mg_timing_agent agent = {.name = batch->agent,
                                          .host = batch->host,
                                          .version = batch->version,
                                          .token = batch->token,
                                          .any_agent = batch->any_agent};
    a.class = mg_timing_class_number(op, db, &batch->class);
    a.family = mg_timing_number(db, MG_BIND(db, CLASS_FAMILY, mg_int(a.class)), a.class);
    a.agent = agent_number(op, db, &agent, a.class);
    a.now = mg_store_now(op->store);
    a.at = batch->at > 0 && batch->at < a.now + 10 * MINUTE_MS ? batch->at : a.now;
    a.distrusted = is_distrusted(batch);
    a.leases = mg_timing_number(db, MG_BIND(db, HAS_LEASES, mg_int(a.class)), 0) != 0;
    if (!mg_op_ok(op, db)) {
        return;
    }
    a.batch_id = batch_number(&a);
    for (size_t i = 0; i < batch->n_rows && mg_op_ok(op, db); i++) {
        add_row(&a, &batch->rows[i]);
    }
    if (answer->added > before) {
        MG_RUN(db, TOUCH_BATCH, mg_int(a.batch_id), mg_int(a.now));
    }
    save_ratios(&a);
    MG_RUN(db, COUNT_AGENT, mg_int(a.agent), mg_int(answer->added - before), mg_int(a.now));
}

void mg_op_run_add_timings(struct mg_op *op, struct mg_db *db)
{
    struct mg_store_timings *answer = MG_NEW(&op->arena, struct mg_store_timings);
    for (size_t i = 0; i < op->args.n_batches && mg_op_ok(op, db); i++) {
        add_batch(op, db, &op->args.batches[i], answer);
    }
    answer->generation = mg_timing_generation(db);
    op->result.timings = answer;
}
