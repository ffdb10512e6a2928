/* What a worker is given: request, graph and starts at descriptor 3, a snapshot of timings at 5. */
#include <stdlib.h>
#include <string.h>

#include "server/file.h"
#include "server/pack.h"
#include "server/plan_blob.h"
#include "server/worker.h"
#include "server/worker_priv.h"

enum { MAX_GRAPH = 1 << 30 };

/* Plans of an earlier attempt. One that cannot be read is left out: the job goes on without it. */
static void load_starts(struct mg_worker_run *run, const struct mg_worker_head *head, const char *at, const char *end)
{
    const struct mg_plan **starts = MG_NEW_ARRAY(&run->arena, const struct mg_plan *, MG_FRONT_MAX);
    for (uint64_t i = 0; i < head->start_count && i < MG_FRONT_MAX; i++) {
        uint64_t size;
        struct mg_plan *plan;
        struct mg_error ignored;
        if ((size_t)(end - at) < sizeof size)
            break;
        memcpy(&size, at, sizeof size);
        at += sizeof size;
        if (size > (uint64_t)(end - at))
            break;
        if (mg_plan_unpack(at, size, &run->arena, &plan, &ignored) == MG_OK)
            starts[run->options.start_count++] = plan;
        at += size;
    }
    run->options.starts = starts;
}

static enum mg_code load(struct mg_worker_run *run, struct mg_error *err)
{
    size_t size, graph_size;
    char *text;
    struct mg_file file; /* mapped for as long as the process lives */
    struct mg_worker_head head;
    if (!mg_file_map(&file, MG_WORKER_IN) || file.size < sizeof head)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the worker was given no job");
    const char *input = file.data;
    size = file.size;
    memcpy(&head, input, sizeof head);
    if (memcmp(head.magic, "MGWORK1", 8) != 0 || sizeof head + head.request_size + head.graph_size > size)
        return mg_fail(err, MG_ERR_INTERNAL, "", "the worker was given a damaged job");
    const struct mg_request_rules rules = {.detached = true, .max_seconds = 0};
    const char *request = mg_arena_copy(&run->arena, input + sizeof head, head.request_size + 1);
    enum mg_code code = mg_job_request_read(request, head.request_size, &rules, &run->arena, &run->request, err);
    if (code != MG_OK)
        return code;
    if (!mg_unpack(input + sizeof head + head.request_size, head.graph_size, MAX_GRAPH, &text, &graph_size))
        return mg_fail(err, MG_ERR_INTERNAL, "", "the stored graph is damaged");
    /* Training is in the graph already, and the zoo has been asked. */
    run->request.model = NULL;
    run->request.has_training = false;
    run->request.graph = mg_arena_copy(&run->arena, text, graph_size + 1);
    run->request.graph_size = graph_size;
    free(text);
    code = mg_job_request_graph(&run->request, &run->arena, &run->graph, NULL, err);
    mg_job_request_search_options(&run->request, &run->options);
    run->options.seconds_only_end = run->options.max_seconds <= 0; /* evaluations were asked for */
    if (head.seconds > 0)
        run->options.max_seconds = head.seconds;
    if (head.start_count)
        load_starts(run, &head, input + sizeof head + head.request_size + head.graph_size, input + size);
    return code;
}

/* The snapshot at descriptor 5, if there is one. */
static enum mg_code open_pricer(struct mg_worker_run *run, struct mg_error *err)
{
    struct mg_file file;
    const char *use = run->request.timings;
    if (!mg_file_map(&file, MG_WORKER_TIMINGS))
        return MG_OK;
    enum mg_code code = mg_timings_open(file.data, file.size, &run->timings, err);
    if (code != MG_OK)
        return code;
    run->options.pricer = mg_pricer_new(run->options.device, &run->timings,
                                        strcmp(use, "exact") == 0   ? MG_TIMINGS_EXACT
                                        : strcmp(use, "model") == 0 ? MG_TIMINGS_MODEL
                                                                    : MG_TIMINGS_NEAR);
    return run->options.pricer ? MG_OK : mg_fail(err, MG_ERR_NOMEM, "", "out of memory");
}

static enum mg_code load_all(void *context, struct mg_error *err)
{
    enum mg_code code = load(context, err);
    return code == MG_OK ? open_pricer(context, err) : code;
}

enum mg_code mg_worker_load(struct mg_worker_run *run, struct mg_error *err)
{
    return mg_arena_guard(&run->arena, load_all, run, err);
}
