/* format=checkpoint: what a plan does with the results of the forward pass, module by module, for people who keep
 * their own training script: a table in comments, and lines of Python that do a part of it by PyTorch's own means
 * (whole modules instead of single values; nothing is split). The text says what the lines leave out. */
#include "export/export_priv.h"

enum fate { KEEP, CHUNK, OFFLOAD, RECOMPUTE, FATES };
static const char *const fate_names[] = {"keep", "chunk", "offload", "recompute"};

struct row { /* a module, or an operator without one */
    const char *name;
    enum fate fate;            /* the strongest of its operators' */
    uint32_t operators, moved; /* all, and those of that fate */
    uint32_t region;           /* CHUNK */
    uint64_t bytes;            /* results of those of that fate */
    bool inside;               /* a module around it is listed with the same fate */
};
struct advice {
    struct mg_export *e;
    mg_op forward;           /* operators before this index */
    enum fate *fates;        /* by operator */
    const uint32_t *regions; /* by operator: outermost region, or MG_NONE */
    struct row *rows;
    size_t row_count, row_capacity;
    bool by_module;
};

/* ---- operators ---- */

static void find_fates(struct advice *a)
{
    const struct mg_plan *plan = a->e->plan;
    const struct mg_graph *g = a->e->g;
    uint32_t *computed = MG_NEW_ARRAY(a->e->arena, uint32_t, g->op_count);
    uint32_t *regions = MG_NEW_ARRAY(a->e->arena, uint32_t, g->op_count);
    a->fates = MG_NEW_ARRAY(a->e->arena, enum fate, g->op_count);
    memset(regions, 0xff, g->op_count * sizeof *regions);
    for (size_t r = plan->region_count; r-- > 0;)
        for (uint32_t i = 0; i < plan->regions[r].op_count; i++)
            regions[plan->regions[r].ops[i].op] = (uint32_t)r;
    for (mg_op op = 0; op < g->op_count; op++)
        a->fates[op] = regions[op] == MG_NONE ? KEEP : CHUNK;
    for (size_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_COMPUTE && ++computed[step->op] > 1)
            a->fates[step->op] = RECOMPUTE;
        if (step->kind != MG_STEP_STORE)
            continue;
        mg_op producer = g->values[plan->instances[plan->refs[step->in]].value].producer;
        if (producer != MG_NONE && a->fates[producer] < OFFLOAD)
            a->fates[producer] = OFFLOAD;
    }
    a->regions = regions;
}

static uint64_t bytes_of(const struct mg_graph *g, mg_op op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->ops[op].out_count; i++)
        bytes += g->values[g->ops[op].out[i]].bytes;
    return bytes;
}

/* ---- modules ---- */

/* Is `module` the module `around`, or inside of it? */
static bool is_within(const char *module, const char *around)
{
    size_t size = strlen(around);
    return strncmp(module, around, size) == 0 && (module[size] == 0 || module[size] == '.');
}

static struct row *row_of(struct advice *a, const char *name)
{
    for (size_t i = 0; i < a->row_count; i++)
        if (strcmp(a->rows[i].name, name) == 0)
            return &a->rows[i];
    struct row *row = MG_PUSH(a->e->arena, a->rows, a->row_count, a->row_capacity);
    *row = (struct row){.name = name, .region = MG_NONE};
    return row;
}

static void count_operator(struct advice *a, mg_op op)
{
    const struct mg_op_info *info = &a->e->g->ops[op];
    struct row *row = row_of(a, a->by_module ? info->module : info->name);
    enum fate fate = a->fates[op];
    row->operators++;
    if (fate > row->fate)
        row->bytes = row->moved = 0;
    if (fate >= row->fate) {
        row->fate = fate;
        row->moved++;
        row->bytes += bytes_of(a->e->g, op);
        row->region = a->regions[op];
    }
}

/* A module all of whose inner modules have one fate is listed in their place; but not a list of numbered ones, which is
 * not called itself, and of which one checkpoint around all would hold all at once. */
static void fold_modules(struct advice *a)
{
    size_t leaves = a->row_count;
    for (size_t i = 0; i < leaves; i++) {
        for (const char *dot = strchr(a->rows[i].name, '.'); dot; dot = strchr(dot + 1, '.')) {
            if (dot[1] >= '0' && dot[1] <= '9')
                continue;
            const char *around = mg_arena_printf(a->e->arena, "%.*s", (int)(dot - a->rows[i].name), a->rows[i].name);
            struct row sum = {.name = around, .fate = a->rows[i].fate, .region = a->rows[i].region};
            bool one = sum.fate != KEEP && !a->rows[i].inside;
            for (size_t k = 0; k < leaves && one; k++) {
                if (!is_within(a->rows[k].name, around))
                    continue;
                one = a->rows[k].fate == sum.fate && a->rows[k].region == sum.region;
                sum.operators += a->rows[k].operators;
                sum.moved += a->rows[k].moved;
                sum.bytes += a->rows[k].bytes;
            }
            if (!one)
                continue;
            for (size_t k = 0; k < leaves; k++)
                a->rows[k].inside = a->rows[k].inside || is_within(a->rows[k].name, around);
            *row_of(a, around) = sum;
            break;
        }
    }
}

/* ---- text ---- */

/* Is there code for the row, or for a module around it? Both means take a module as a whole, so that it is only taken
 * where all inside of it is parked or dropped, too. The model itself would be everything. */
static bool has_lines(const struct advice *a, const struct row *row)
{
    if (!a->by_module || row->inside || !*row->name || row->fate < OFFLOAD)
        return false;
    for (size_t i = 0; i < a->row_count; i++)
        if (a->rows[i].fate < OFFLOAD && is_within(a->rows[i].name, row->name))
            return false;
    return true;
}

/* Inside a module that is computed again nothing is kept anyway; once more inside it would only cost time. */
static bool is_covered(const struct advice *a, const struct row *row)
{
    for (size_t i = 0; i < a->row_count; i++)
        if (&a->rows[i] != row && a->rows[i].fate == RECOMPUTE && is_within(row->name, a->rows[i].name) &&
            has_lines(a, &a->rows[i])) /* looks at all rows, and few are around this one */
            return true;
    return false;
}

static size_t names_of(const struct advice *a, enum fate fate, const char **names)
{
    size_t count = 0;
    for (size_t i = 0; i < a->row_count; i++)
        if (a->rows[i].fate == fate && has_lines(a, &a->rows[i]) && !is_covered(a, &a->rows[i]))
            names[count++] = a->rows[i].name;
    return count;
}

static void write_row(const struct advice *a, const struct row *row)
{
    struct mg_writer *w = a->e->w;
    mg_write_text(w, "# %-9s ", fate_names[row->fate]);
    if (*row->name) {
        mg_write_text(w, "\"");
        mg_write_ascii(w, row->name, "\\");
        mg_write_text(w, "\"");
    } else {
        mg_write_text(w, a->by_module ? "(the model itself)" : "(without a name)");
    }
    mg_write_text(w, ": %u of %u operators, %llu bytes", row->moved, row->operators, (unsigned long long)row->bytes);
    if (row->fate == CHUNK)
        mg_write_text(w, ", in %u parts", a->e->plan->regions[row->region].parts);
    mg_write_text(w, row->fate == KEEP || has_lines(a, row) ? "\n" : "; by hand\n");
}

static void write_table(const struct advice *a)
{
    for (enum fate fate = FATES; fate-- > 0;)
        for (size_t i = 0; i < a->row_count; i++)
            if (a->rows[i].fate == fate && !a->rows[i].inside)
                write_row(a, &a->rows[i]);
}

static const char recompute_lines[] =
    "\n\nfor name in RECOMPUTE:\n"
    "    module = model.get_submodule(name)\n"
    "    module.forward = functools.partial(torch.utils.checkpoint.checkpoint, module.forward, use_reentrant=False)\n";
static const char offload_lines[] =
    "\n\ndef offloaded(forward):\n"
    "    def call(*args, **kwargs):\n"
    "        with torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available()):\n"
    "            return forward(*args, **kwargs)\n\n"
    "    return call\n\n\n"
    "for name in OFFLOAD:\n"
    "    module = model.get_submodule(name)\n"
    "    module.forward = offloaded(module.forward)\n";

static void write_names(struct mg_writer *w, const char *variable, const char *const *names, size_t count)
{
    if (count == 0)
        return;
    mg_write_text(w, "\n%s = ", variable);
    mg_write_python_list(w, names, count);
}

static void write_lines(const struct advice *a, const char *const *again, size_t agains, const char *const *offload,
                        size_t offloads)
{
    struct mg_writer *w = a->e->w;
    mg_write_text(w,
                  "\n# To paste after `model` was made; module names as in model.named_modules(). Each module is taken "
                  "as a whole, with\n# its submodules%s:\nimport %sjson\n\nimport torch\n%s",
                  offloads ? ", and what is parked is what autograd saves in it, its inputs too" : "",
                  agains ? "functools\nimport " : "", agains ? "import torch.utils.checkpoint\n" : "");
    write_names(w, "RECOMPUTE", again, agains);
    write_names(w, "OFFLOAD", offload, offloads);
    mg_write_text(w, "\n%s%s", agains ? recompute_lines : "", offloads ? offload_lines : "");
}

static const char legend[] =
    "#\n"
    "# keep       its results stay until the backward pass has read them\n"
    "# chunk      it runs part after part: feed it the parts of a batch one by one and join what comes out\n"
    "# offload    its results wait in host memory\n"
    "# recompute  its results are dropped and computed again when the backward pass needs them\n#\n";

static void write_figures(const struct advice *a, bool lines)
{
    const struct mg_plan *plan = a->e->plan;
    struct mg_writer *w = a->e->w;
    mg_write_text(w, "# Advice from a plan of magisd for the graph %s\n", a->e->original->digest);
    mg_write_text(w, "# The whole plan: peak %llu bytes instead of %llu; a step takes %.6g s instead of %.6g s\n",
                  (unsigned long long)plan->figures.peak_bytes, (unsigned long long)plan->original.peak_bytes,
                  plan->figures.latency_s, plan->original.latency_s);
    mg_write_text(w,
                  "# %s.\n# The plan itself, run by format=torch or, of "
                  "a captured step, by magis_apply.py, reaches that peak exactly.\n%s",
                  lines ? "The lines at the end come near to a part of it; what is marked \"by hand\" they leave out"
                        : "There are no lines to paste for it: it is advice to follow by hand",
                  legend);
}

static bool says_anything(const struct advice *a)
{
    for (mg_op op = 0; op < a->forward; op++)
        if (a->fates[op] != KEEP && !a->e->g->ops[op].is_view)
            return true;
    return false;
}

enum mg_code mg_write_checkpoint(struct mg_export *e)
{
    struct advice a = {.e = e, .forward = e->g->forward_ops};
    if (a.forward > e->g->op_count)
        a.forward = (mg_op)e->g->op_count;
    for (mg_op op = 0; op < a.forward; op++)
        a.by_module = a.by_module || *e->g->ops[op].module;
    find_fates(&a);
    if (!says_anything(&a))
        return mg_fail(e->err, MG_ERR_UNSUPPORTED, "",
                       "of the forward pass the plan recomputes, parks and splits nothing: there is nothing to advise");
    for (mg_op op = 0; op < a.forward; op++)
        if (!e->g->ops[op].is_view)
            count_operator(&a, op);
    if (a.by_module)
        fold_modules(&a);
    const char **again = MG_NEW_ARRAY(e->arena, const char *, a.row_count);
    const char **offload = MG_NEW_ARRAY(e->arena, const char *, a.row_count);
    size_t agains = names_of(&a, RECOMPUTE, again), offloads = names_of(&a, OFFLOAD, offload);
    write_figures(&a, agains + offloads > 0);
    if (!a.by_module)
        mg_write_text(e->w, "# The graph names no modules: these are its operators.\n");
    write_table(&a);
    if (agains + offloads > 0)
        write_lines(&a, again, agains, offload, offloads);
    return MG_OK;
}
