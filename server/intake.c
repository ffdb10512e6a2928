/* The queue of questions: those that somebody waits for come first, and what is done for later never holds the last
 * child. */
#include "server/intake_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/file.h"
#include "server/spawn.h"

static void free_ask(struct mg_ask *ask)
{
    if (ask->in >= 0)
        close(ask->in);
    if (ask->out >= 0)
        close(ask->out);
    free(ask);
}

void mg_intake_conclude(mg_intake *intake, struct mg_ask *ask, struct mg_reply *reply)
{
    intake->answered++;
    intake->failed += reply->problem != NULL;
    if (ask->done)
        ask->done(ask->context, reply);
    mg_reply_release(reply);
    free_ask(ask);
}

void mg_intake_conclude_problem(mg_intake *intake, struct mg_ask *ask, const char *problem, const char *detail)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    mg_reply_fail(&reply, problem, "", "%s", detail);
    if (strcmp(problem, "draining") == 0 || strcmp(problem, "queue-full") == 0)
        reply.retry_after_s = 2;
    mg_intake_conclude(intake, ask, &reply);
}

/* ---- questions ---- */

static bool is_for_later(const struct mg_ask *ask)
{
    return ask->question.kind == MG_INTAKE_WANTS;
}

static struct mg_ask_line *line_of(mg_intake *intake, const struct mg_ask *ask)
{
    return is_for_later(ask) ? &intake->later : &intake->awaited;
}

void mg_intake_append(struct mg_ask_line *line, struct mg_ask *ask)
{
    *line->last = ask;
    line->last = &ask->next;
}

struct mg_ask *mg_intake_take(struct mg_ask_line *line, mg_ticket ticket)
{
    for (struct mg_ask **at = &line->first; *at; at = &(*at)->next)
        if ((*at)->question.id == ticket) {
            struct mg_ask *ask = *at;
            *at = ask->next;
            if (!*at)
                line->last = at;
            ask->next = NULL;
            return ask;
        }
    return NULL;
}

void mg_intake_line_up(mg_intake *intake, struct mg_ask *ask)
{
    mg_intake_append(line_of(intake, ask), ask);
    intake->queued++;
}

void mg_intake_put_back(mg_intake *intake, struct mg_ask *ask)
{
    struct mg_ask_line *line = line_of(intake, ask);
    ask->next = line->first;
    if (!line->first)
        line->last = &ask->next;
    line->first = ask;
    intake->queued++;
}

static struct mg_ask *take_first(mg_intake *intake, struct mg_ask_line *line)
{
    struct mg_ask *ask = line->first;
    line->first = ask->next;
    if (!line->first)
        line->last = &line->first;
    ask->next = NULL;
    intake->queued--;
    return ask;
}

static bool may_do_later(const mg_intake *intake)
{
    unsigned at_it = 0;
    for (unsigned i = 0; i < intake->config.processes; i++)
        at_it += intake->child[i].current && is_for_later(intake->child[i].current);
    return at_it == 0 || at_it + 1 < intake->config.processes;
}

/* The next question that is still wanted, or NULL. */
static struct mg_ask *next_ask(mg_intake *intake)
{
    while (intake->awaited.first) {
        struct mg_ask *ask = take_first(intake, &intake->awaited);
        if (ask->done || ask->question.kind == MG_INTAKE_SUBMIT)
            return ask;
        free_ask(ask);
    }
    while (intake->later.first && may_do_later(intake)) {
        struct mg_ask *ask = take_first(intake, &intake->later);
        if (ask->done)
            return ask;
        free_ask(ask);
    }
    return NULL;
}

void mg_intake_dispatch(mg_intake *intake)
{
    for (unsigned i = 0; i < intake->config.processes; i++) {
        struct mg_intake_child *child = &intake->child[i];
        struct mg_ask *ask = child->current || !child->alive ? NULL : next_ask(intake);
        if (ask && !mg_intake_child_ask(child, ask))
            mg_intake_put_back(intake, ask);
    }
}

static bool fill_parts(struct mg_ask *ask, const struct mg_intake_question *question)
{
    ask->in = mg_memfd("question");
    if (ask->in < 0)
        return false;
    for (unsigned i = 0; i < MG_INTAKE_PARTS; i++) {
        ask->question.part_size[i] = question->part[i].size;
        if (question->part[i].size && !mg_write_all(ask->in, question->part[i].data, question->part[i].size))
            return false;
    }
    return true;
}

static bool fill_ask(struct mg_ask *ask, const mg_intake *intake, const struct mg_intake_question *question)
{
    ask->question.kind = question->kind;
    ask->question.gzip = question->gzip;
    ask->question.body_size = question->body_size;
    ask->question.max_body = intake->config.max_body;
    if (question->args && strlen(question->args) >= sizeof ask->question.args)
        return false;
    snprintf(ask->question.args, sizeof ask->question.args, "%s", question->args ? question->args : "");
    ask->out = mg_memfd("answer");
    return ask->out >= 0 && (ask->in >= 0 || fill_parts(ask, question));
}

/* Questions that cannot even be queued are answered from the loop, as promised. */
struct refusal {
    uv_timer_t timer;
    mg_intake *intake;
    struct mg_ask *ask;
    const char *problem, *detail;
};

static void on_refusal_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_refuse(uv_timer_t *timer)
{
    struct refusal *refusal = timer->data;
    mg_intake_take(&refusal->intake->refused, refusal->ask->question.id);
    mg_intake_conclude_problem(refusal->intake, refusal->ask, refusal->problem, refusal->detail);
    uv_close((uv_handle_t *)timer, on_refusal_closed);
}

static void refuse_later(mg_intake *intake, struct mg_ask *ask, const char *problem, const char *detail)
{
    struct refusal *refusal = calloc(1, sizeof *refusal);
    if (!refusal)
        abort();
    mg_intake_append(&intake->refused, ask);
    *refusal = (struct refusal){.intake = intake, .ask = ask, .problem = problem, .detail = detail};
    uv_timer_init(intake->config.loop, &refusal->timer);
    refusal->timer.data = refusal;
    uv_timer_start(&refusal->timer, on_refuse, 0, 0);
}

mg_ticket mg_intake_ask(mg_intake *intake, const struct mg_intake_question *question, mg_reply_cb done, void *context)
{
    struct mg_ask *ask = calloc(1, sizeof *ask);
    if (!ask)
        abort(); /* a few kilobytes: the daemon is lost anyway */
    ask->in = question->body_fd;
    ask->out = -1;
    ask->done = done;
    ask->context = context;
    ask->question.id = ++intake->next_id;
    mg_ticket ticket = ask->question.id;
    if (intake->closing) {
        refuse_later(intake, ask, "draining", "the daemon is stopping");
    } else if (intake->queued >= intake->config.max_queued) {
        refuse_later(intake, ask, "queue-full", "too many bodies wait to be read");
    } else if (!fill_ask(ask, intake, question)) {
        refuse_later(intake, ask, "internal", "the question cannot be passed to intake");
    } else {
        mg_intake_line_up(intake, ask);
        mg_intake_dispatch(intake);
    }
    return ticket;
}

static void forget_in(struct mg_ask_line *line, mg_ticket ticket)
{
    for (struct mg_ask *ask = line->first; ask; ask = ask->next)
        if (ask->question.id == ticket)
            ask->done = NULL;
}

/* ---- life ---- */

void mg_intake_forget(mg_intake *intake, mg_ticket ticket)
{
    forget_in(&intake->awaited, ticket);
    forget_in(&intake->later, ticket);
    forget_in(&intake->looked_up, ticket);
    forget_in(&intake->refused, ticket);
    for (unsigned i = 0; i < intake->config.processes; i++)
        if (intake->child[i].current && intake->child[i].current->question.id == ticket)
            intake->child[i].current->done = NULL;
}

void mg_intake_stats(const mg_intake *intake, struct mg_intake_stats *out)
{
    *out = (struct mg_intake_stats){
        .queued = intake->queued, .answered = intake->answered, .failed = intake->failed, .deaths = intake->deaths};
    for (unsigned i = 0; i < intake->config.processes; i++) {
        out->alive += intake->child[i].alive;
        out->busy += intake->child[i].current != NULL;
    }
}

int mg_intake_open(mg_intake **out, const struct mg_intake_config *config)
{
    mg_intake *intake = calloc(1, sizeof *intake);
    *out = intake;
    if (!intake)
        return UV_ENOMEM;
    intake->config = *config;
    intake->awaited.last = &intake->awaited.first;
    intake->later.last = &intake->later.first;
    intake->looked_up.last = &intake->looked_up.first;
    intake->refused.last = &intake->refused.first;
    if (intake->config.processes < 1 || intake->config.processes > MG_INTAKE_CHILDREN)
        intake->config.processes = 2;
    intake->executable = strdup(config->executable);
    intake->data_dir = config->data_dir ? strdup(config->data_dir) : NULL;
    for (unsigned i = 0; i < intake->config.processes; i++)
        mg_intake_child_open(intake, &intake->child[i]);
    return 0;
}

void mg_intake_close(mg_intake *intake, void (*closed)(void *context), void *context)
{
    intake->closing = true;
    intake->closed = closed;
    intake->closed_context = context;
    while (intake->awaited.first)
        mg_intake_conclude_problem(intake, take_first(intake, &intake->awaited), "draining", "the daemon is stopping");
    while (intake->later.first)
        mg_intake_conclude_problem(intake, take_first(intake, &intake->later), "draining", "the daemon is stopping");
    while (intake->looked_up.first)
        mg_intake_conclude_problem(intake, take_first(intake, &intake->looked_up), "draining",
                                   "the daemon is stopping");
    for (unsigned i = 0; i < intake->config.processes; i++)
        mg_intake_child_close(&intake->child[i]);
}
