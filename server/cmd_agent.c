/* `magisd agent`: measures what a daemon wants measured: plans as wholes (agent_plan.c), and operators in batches:
 * claim, canary, measure, canary, post.
 *
 * An operator whose kernel does not compile, or at which the device fails, is tried once more on the device opened
 * anew, and is then one that cannot be timed; where it ended the process (agent_guard.c), or the device does not open
 * again, that is said of it without another try. A batch whose canary kernel is more than 5 % slower than its best on
 * this device is thrown away. What was measured is posted until the daemon has it: a batch keeps its name, so that a
 * retry after a lost answer adds nothing. Between batches the device is closed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/calibrate.h"
#include "measure/measure.h"
#include "server/agent.h"
#include "server/device_lock.h"
#include "server/interrupt.h"
#include "server/options.h"
#include "server/timing_parse.h"
#include "server/version.h"

enum { DISCARDS_MAX = 5 };
static const double LAST_POST_S = 60, IDLE_S = 5, LONGEST_PAUSE_S = 300;

static double now(void)
{
    return mg_measure_clock();
}

bool mg_agent_over(const struct mg_agent *a)
{
    return mg_interrupted() || (a->stop_at > 0 && now() >= a->stop_at);
}

/* ---- the device ---- */

static char *class_of(const struct mg_engine *engine)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_engine_write_class(&w, engine, &mg_time_policy_default);
    if (mg_writer_finish(&w))
        return w.data;
    mg_writer_release(&w);
    return NULL;
}

/* The device on one boot of one machine, whatever hosts are called; "" where the system does not tell. */
static void look_at_place(struct mg_agent *a)
{
    char boot[48];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(boot, sizeof boot, file))
        snprintf(a->place, sizeof a->place, "%.*s/%.40s", (int)strcspn(boot, "\n"), boot, a->device);
    if (file)
        fclose(file);
}

static bool look_at_device(struct mg_agent *a)
{
    struct mg_engine *engine;
    if (!mg_canary_open(&a->canary, &engine))
        return false;
    const struct mg_engine_properties *p = mg_engine_properties(engine);
    a->class_key = class_of(engine);
    snprintf(a->backend, sizeof a->backend, "%s", p->backend);
    snprintf(a->uuid, sizeof a->uuid, "%s", p->uuid);
    mg_engine_close(engine);
    return a->class_key != NULL;
}

/* ---- measuring ---- */

/* What does not fit is not noted: it is longer than what daemons ask for. */
static void note(struct mg_agent *a, const char *op, const char *signature)
{
    bool fits = strlen(op) < sizeof a->note->op && strlen(signature) < sizeof a->note->signature;
    snprintf(a->note->signature, sizeof a->note->signature, "%s", fits ? signature : "");
    snprintf(a->note->op, sizeof a->note->op, "%s", fits ? op : "");
}

/* False: the device failed, and the operator stays noted. */
static bool time_one(struct mg_agent *a, struct mg_batch *batch, struct mg_engine **engine, const char *op,
                     const char *signature)
{
    enum mg_timing_status status;
    note(a, op, signature);
    if (!mg_batch_time(batch, &a->canary, engine, op, signature, &status))
        return false;
    note(a, "", "");
    if (status == MG_TIMING_NOMEM)
        fprintf(stderr, "magisd agent: too little memory is free to time %s %s\n", op, signature);
    return true;
}

/* The claimed operators; measuring stops when the time is over. One that is still noted ended the last batch: that is
 * told of it alone and first, since the next one may do the same. False: the device failed. */
static bool measure_all(struct mg_agent *a, struct mg_engine **engine, const json_t *operators, struct mg_batch *batch)
{
    size_t i;
    json_t *item;
    if (*a->note->op) {
        mg_batch_refuse(batch, a->note->op, a->note->signature);
        return true;
    }
    json_array_foreach((json_t *)(uintptr_t)operators, i, item)
    {
        const char *op = json_string_value(json_object_get(item, "op"));
        const char *signature = json_string_value(json_object_get(item, "signature"));
        if (mg_agent_over(a))
            break;
        if (op && signature && !time_one(a, batch, engine, op, signature))
            return false;
    }
    return true;
}

/* What the daemon does not take, though it takes us, is lost. */
static enum mg_agent_turn send_batch(struct mg_agent *a, const struct mg_batch *batch)
{
    struct mg_writer w;
    char *text = NULL;
    int status = 0;
    mg_writer_init(&w);
    mg_batch_write(batch, &w);
    double until = a->stop_at;
    a->stop_at = until > 0 ? until + LAST_POST_S : 0; /* what is measured is worth a minute more */
    if (mg_writer_finish(&w))
        status = mg_agent_post(a, "/timings", "application/x-ndjson", w.data, w.size, &text);
    a->stop_at = until;
    free(text);
    mg_writer_release(&w);
    if (status == 200)
        return MG_TURN_WORKED;
    return status == 0 || status == 401 || status == 403 ? MG_TURN_END : MG_TURN_LATER;
}

static const char SLOW[] =
    "others use it, or its clock changes (it is throttled, or one small kernel took over 5 % longer than at its best)",
                  FAILING[] = "it fails, as said above", REFUSED[] = "the daemon did not take them, as said above";

/* Says what to do where waiting alone does not seem to help. */
static void note_bad_batch(struct mg_agent *a, const char *why)
{
    if (++a->bad_batches != DISCARDS_MAX)
        return;
    fprintf(stderr, "magisd agent: %s: %d batches in a row were thrown away: %s.", a->device, DISCARDS_MAX, why);
    if (why == SLOW)
        fprintf(
            stderr, " %s",
            a->once
                ? "Run this again when it is idle, or leave out --once: then the agent waits for quiet times"
                : "The agent goes on trying; --hours 22-6, say, keeps it to times when nobody else uses the device");
    fprintf(stderr, "\n");
}

/* NULL: good; else why the rows are worth nothing. */
static const char *measure_batch(struct mg_agent *a, struct mg_engine **engine, const json_t *operators,
                                 struct mg_batch *batch)
{
    if (!mg_batch_begin(batch, &a->canary, *engine))
        return FAILING;
    if (batch->head.busy)
        return SLOW;
    if (!measure_all(a, engine, operators, batch) || !mg_batch_end(batch, &a->canary, *engine))
        return FAILING;
    return batch->head.busy || batch->slow ? SLOW : NULL;
}

/* Thrown away, its operators are had again by our next claim. */
static enum mg_agent_turn run_batch(struct mg_agent *a, const json_t *operators)
{
    struct mg_engine *engine;
    struct mg_batch batch = {.head = {.agent = a->name, .host = a->host, .version = a->version}};
    enum mg_agent_turn turn = MG_TURN_WORKED;
    batch.head.class.key = a->class_key;
    if (!mg_canary_open(&a->canary, &engine))
        return MG_TURN_END;
    const char *bad = measure_batch(a, &engine, operators, &batch);
    mg_engine_close(engine);
    a->failures = bad == FAILING ? a->failures + 1 : 0;
    if (bad) {
        a->note->discarded += batch.count;
        turn = bad == SLOW && batch.count ? MG_TURN_WORKED : MG_TURN_LATER;
    } else if (batch.count) {
        turn = send_batch(a, &batch);
        a->note->measured += turn == MG_TURN_WORKED ? batch.count : 0;
        a->note->crashes = turn == MG_TURN_WORKED ? 0 : a->note->crashes;
        note(a, "", "");
        bad = turn == MG_TURN_LATER ? REFUSED : NULL;
    }
    mg_batch_release(&batch);
    if (bad)
        note_bad_batch(a, bad);
    else
        a->bad_batches = 0;
    return turn;
}

static enum mg_agent_turn measure_operators(struct mg_agent *a)
{
    json_t *answer;
    double left = a->stop_at > 0 ? a->stop_at - now() : MG_BATCH_S;
    enum mg_agent_turn turn = mg_agent_claim(a, "/timings/claims",
                                             json_pack("{s:s, s:i, s:f}", "agent", a->name, "max", MG_BATCH_MAX,
                                                       "seconds", left < MG_BATCH_S ? left : MG_BATCH_S),
                                             &answer);
    json_t *operators = json_object_get(answer, "operators");
    if (turn == MG_TURN_WORKED)
        turn = json_array_size(operators) ? run_batch(a, operators) : MG_TURN_NOTHING;
    json_decref(answer);
    return turn;
}

/* ---- the day of an agent ---- */

static bool in_hours(const struct mg_agent *a)
{
    time_t seconds = time(NULL);
    struct tm parts;
    if (a->from_hour == a->to_hour || !localtime_r(&seconds, &parts))
        return true;
    return a->from_hour < a->to_hour ? parts.tm_hour >= a->from_hour && parts.tm_hour < a->to_hour
                                     : parts.tm_hour >= a->from_hour || parts.tm_hour < a->to_hour;
}

/* Why not now; NULL: now, with *lock held, or, with *lock -1, never: that is said. */
static const char *reason_to_wait(const struct mg_agent *a, int *lock)
{
    *lock = -1;
    if (!in_hours(a))
        return "it is not yet time, by --hours";
    bool taken = mg_device_lock(a->lock_dir, a->backend, a->uuid, lock) == MG_LOCK_TAKEN;
    return taken ? "another process measures on this device" : NULL;
}

/* Until it is looked again whether there is work; a device that fails again and again is left alone for longer. */
static double pause_of(const struct mg_agent *a)
{
    double seconds = IDLE_S;
    for (unsigned i = 1; i < a->failures && !a->once && seconds < LONGEST_PAUSE_S; i++)
        seconds *= 2;
    return seconds;
}

/* False: there is no more to do, or, with *good false, the daemon refuses us, or the lock is closed to us. */
static bool work_once(struct mg_agent *a, bool *good)
{
    int lock;
    const char *wait = reason_to_wait(a, &lock);
    if (wait) {
        mg_agent_say_idle(a, wait);
        mg_agent_rest(a, in_hours(a) ? "busy" : "resting", IDLE_S);
        return !a->once || in_hours(a);
    }
    *good = lock >= 0;
    if (!*good)
        return false;
    double start = now();
    enum mg_agent_turn turn = mg_agent_plan(a);
    if (turn == MG_TURN_NOTHING)
        turn = measure_operators(a);
    close(lock);
    if (turn == MG_TURN_NOTHING)
        mg_agent_explain_idle(a);
    else
        a->idle[0] = '\0';
    *good = turn != MG_TURN_END || mg_agent_over(a);
    if (turn == MG_TURN_END || (a->once && (turn == MG_TURN_NOTHING || a->bad_batches >= DISCARDS_MAX)))
        return false;
    if (turn == MG_TURN_WORKED)
        mg_agent_rest(a, "resting", (now() - start) * (100 / a->duty - 1));
    else
        mg_agent_rest(a, "idle", pause_of(a));
    return true;
}

static bool read_hours(const char *text, struct mg_agent *a)
{
    char *end;
    long from = strtol(text, &end, 10);
    if (end == text || *end != '-')
        return false;
    const char *rest = end + 1;
    long to = strtol(rest, &end, 10);
    if (end == rest || *end != '\0' || from < 0 || from >= 24 || to < 0 || to > 24)
        return false;
    a->from_hour = (int)from;
    a->to_hour = (int)to;
    return true;
}

static bool read_options(const struct mg_options *o, struct mg_agent *a)
{
    const char *name = o->value[MG_OPTION_AGENT_NAME], *hours = o->value[MG_OPTION_HOURS];
    double seconds = mg_options_number(o, MG_OPTION_AGENT_SECONDS, 0);
    a->server = o->value[MG_OPTION_SERVER] ? o->value[MG_OPTION_SERVER] : "http://127.0.0.1:8080";
    a->token = o->value[MG_OPTION_TOKEN];
    a->device = o->value[MG_OPTION_AGENT_DEVICE] ? o->value[MG_OPTION_AGENT_DEVICE] : "cpu";
    a->lock_dir = o->value[MG_OPTION_LOCK_DIR];
    a->once = mg_options_flag(o, MG_OPTION_ONCE);
    a->duty = mg_options_number(o, MG_OPTION_DUTY, a->once ? 100 : 10);
    a->stop_at = seconds > 0 ? now() + seconds : 0;
    gethostname(a->host, sizeof a->host - 1);
    snprintf(a->version, sizeof a->version, "%s", MG_VERSION);
    snprintf(a->name, sizeof a->name, "%s", name ? name : "");
    if (!name)
        snprintf(a->name, sizeof a->name, "%.60s:%.40s", a->host, a->device);
    snprintf(a->who, sizeof a->who, "magisd agent: %.100s", a->device);
    a->canary.who = a->who;
    a->canary.device = a->device;
    a->canary.memory = MG_AGENT_MEMORY;
    if (hours && !read_hours(hours, a)) {
        fprintf(stderr, "magisd agent: --hours is like 22-6\n");
        return false;
    }
    if (a->duty <= 0 || a->duty > 100) {
        fprintf(stderr, "magisd agent: --duty is a percentage above 0\n");
        return false;
    }
    return true;
}

int mg_cmd_agent(int argc, char **argv)
{
    struct mg_options options;
    struct mg_agent a = {.server = NULL};
    int code;
    if (mg_options_parse(&options, MG_COMMAND_AGENT, argc, argv, &code)) {
        code = MG_EXIT_USAGE;
        if (read_options(&options, &a) && mg_agent_guard(&a, &code)) {
            look_at_place(&a);
            bool good = look_at_device(&a) && mg_agent_tell(&a, "idle") == 200, known = good;
            while (good && !mg_agent_over(&a) && work_once(&a, &good)) {
            }
            if (known)
                mg_agent_leave(&a);
            printf("%lu measured, %lu thrown away for a slow canary, %lu plans executed\n", a.note->measured,
                   a.note->discarded, a.note->plans);
            code = good && a.bad_batches < DISCARDS_MAX ? MG_EXIT_DONE : MG_EXIT_FAILED;
        }
        free(a.class_key);
    }
    mg_options_release(&options);
    return code;
}
