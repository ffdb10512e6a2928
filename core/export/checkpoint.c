/* format=checkpoint: what a plan does with the results of the forward pass, module by module, for people who keep
 * their own training script: a table in comments, and lines of Python that do a part of it by PyTorch's own means
 * (whole modules of blocks.c instead of single values; nothing is split). The text says what the lines come to. */
#include "export/blocks.h"
#include "export/export_priv.h"

static const char *const fate_names[] = {"keep", "chunk", "offload", "recompute"};

struct row { /* a module, or an operator without one */
    const char *name;
    enum mg_fate fate;         /* the strongest of its operators' */
    uint32_t operators, moved; /* all, and those of that fate */
    uint32_t region;           /* MG_FATE_CHUNK */
    uint64_t bytes;            /* results of those of that fate */
    bool inside;               /* a module around it is listed with the same fate */
    bool by_hand;              /* no lines do anything for it */
    bool written;
};
struct advice {
    struct mg_export *e;
    mg_op forward;           /* operators before this index */
    enum mg_fate *fates;     /* by operator */
    const uint32_t *regions; /* by operator: outermost region, or MG_NONE */
    struct row *rows;
    size_t row_count, row_capacity;
    struct mg_blocks blocks;
    bool by_module;
};

/* ---- operators ---- */

static void find_fates(struct advice *a)
{
    const struct mg_plan *plan = a->e->plan;
    const struct mg_graph *g = a->e->g;
    uint32_t *computed = MG_NEW_ARRAY(a->e->arena, uint32_t, g->op_count);
    uint32_t *regions = MG_NEW_ARRAY(a->e->arena, uint32_t, g->op_count);
    a->fates = MG_NEW_ARRAY(a->e->arena, enum mg_fate, g->op_count);
    memset(regions, 0xff, g->op_count * sizeof *regions);
    for (size_t r = plan->region_count; r-- > 0;)
        for (uint32_t i = 0; i < plan->regions[r].op_count; i++)
            regions[plan->regions[r].ops[i].op] = (uint32_t)r;
    for (mg_op op = 0; op < g->op_count; op++)
        a->fates[op] = regions[op] == MG_NONE ? MG_FATE_KEEP : MG_FATE_CHUNK;
    for (size_t s = 0; s < plan->step_count; s++) {
        const struct mg_step *step = &plan->steps[s];
        if (step->kind == MG_STEP_COMPUTE && ++computed[step->op] > 1)
            a->fates[step->op] = MG_FATE_RECOMPUTE;
        if (step->kind != MG_STEP_STORE)
            continue;
        mg_op producer = g->values[plan->instances[plan->refs[step->in]].value].producer;
        if (producer != MG_NONE && a->fates[producer] < MG_FATE_OFFLOAD)
            a->fates[producer] = MG_FATE_OFFLOAD;
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
    enum mg_fate fate = a->fates[op];
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
            bool one = sum.fate != MG_FATE_KEEP && !a->rows[i].inside;
            for (size_t k = 0; k < leaves && one; k++) {
                if (!mg_is_within(a->rows[k].name, around))
                    continue;
                one = a->rows[k].fate == sum.fate && a->rows[k].region == sum.region;
                sum.operators += a->rows[k].operators;
                sum.moved += a->rows[k].moved;
                sum.bytes += a->rows[k].bytes;
            }
            if (!one)
                continue;
            for (size_t k = 0; k < leaves; k++)
                a->rows[k].inside = a->rows[k].inside || mg_is_within(a->rows[k].name, around);
            *row_of(a, around) = sum;
            break;
        }
    }
}

/* ---- text ---- */

/* The first number between two dots of a path; of length 0 where there is none. */
struct number {
    size_t at, length;
    uint32_t value;
};

static struct number number_in(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '.'), part += part != NULL) {
        struct number number = {.at = (size_t)(part - name)};
        for (; part[number.length] >= '0' && part[number.length] <= '9' && number.length < 9; number.length++)
            number.value = number.value * 10 + (uint32_t)(part[number.length] - '0');
        if (number.length && (part[number.length] == '.' || part[number.length] == 0))
            return number;
    }
    return (struct number){0};
}

static uint32_t parts_of(const struct advice *a, const struct row *row)
{
    return row->fate == MG_FATE_CHUNK ? a->e->plan->regions[row->region].parts : 0;
}

/* Do they differ in nothing but the number in their paths? */
static bool are_alike(const struct advice *a, const struct row *x, const struct row *y)
{
    struct number n = number_in(x->name), m = number_in(y->name);
    return x->fate == y->fate && x->by_hand == y->by_hand && parts_of(a, x) == parts_of(a, y) && n.length && m.length &&
           n.at == m.at && memcmp(x->name, y->name, n.at) == 0 &&
           strcmp(x->name + n.at + n.length, y->name + m.at + m.length) == 0;
}

/* Adds up all rows that are like rows[first] in it; their numbers as {0-2,5}, or the one number. */
static const char *gather_alike(struct advice *a, size_t first)
{
    struct row *row = &a->rows[first];
    uint32_t from = number_in(row->name).value, to = from;
    const char *text = mg_arena_printf(a->e->arena, "%u", from);
    bool many = false;
    for (size_t i = first + 1; i < a->row_count; i++) {
        struct row *other = &a->rows[i];
        if (other->written || other->inside || !are_alike(a, row, other))
            continue;
        uint32_t number = number_in(other->name).value;
        other->written = many = true;
        row->operators += other->operators;
        row->moved += other->moved;
        row->bytes += other->bytes;
        if (number != to + 1) {
            text = to > from ? mg_arena_printf(a->e->arena, "%s-%u,%u", text, to, number)
                             : mg_arena_printf(a->e->arena, "%s,%u", text, number);
            from = number;
        }
        to = number;
    }
    text = to > from ? mg_arena_printf(a->e->arena, "%s-%u", text, to) : text;
    return many ? mg_arena_printf(a->e->arena, "{%s}", text) : text;
}

static void write_name(struct advice *a, size_t i)
{
    struct mg_writer *w = a->e->w;
    const char *name = a->rows[i].name;
    struct number number = number_in(name);
    mg_write_text(w, "\"");
    if (number.length) {
        mg_write_ascii(w, mg_arena_printf(a->e->arena, "%.*s", (int)number.at, name), "\\");
        mg_write_text(w, "%s", gather_alike(a, i));
        name += number.at + number.length;
    }
    mg_write_ascii(w, name, "\\");
    mg_write_text(w, "\"");
}

static void write_row(struct advice *a, size_t i)
{
    struct mg_writer *w = a->e->w;
    const struct row *row = &a->rows[i];
    mg_write_text(w, "# %-9s ", fate_names[row->fate]);
    if (*row->name)
        write_name(a, i);
    else
        mg_write_text(w, a->by_module ? "(the model itself)" : "(without a name)");
    mg_write_text(w, ": %u of %u operators, %llu bytes", row->moved, row->operators, (unsigned long long)row->bytes);
    if (row->fate == MG_FATE_CHUNK)
        mg_write_text(w, ", in %u parts", parts_of(a, row));
    mg_write_text(w, row->by_hand ? "; by hand\n" : "\n");
}

static void write_table(struct advice *a)
{
    for (size_t i = 0; i < a->row_count; i++)
        a->rows[i].by_hand =
            a->rows[i].fate == MG_FATE_CHUNK || !a->by_module || !mg_in_blocks(&a->blocks, a->rows[i].name);
    for (enum mg_fate fate = MG_FATES; --fate > MG_FATE_KEEP;)
        for (size_t i = 0; i < a->row_count; i++)
            if (a->rows[i].fate == fate && !a->rows[i].inside && !a->rows[i].written)
                write_row(a, i);
}

static const char recompute_lines[] =
    "\n\nfor name in RECOMPUTE:\n"
    "    module = model.get_submodule(name)\n"
    "    module.forward = functools.partial(torch.utils.checkpoint.checkpoint, module.forward, use_reentrant=False)\n";
/* Batch norm updates running statistics: the second time it works on copies of them. */
static const char norm_lines[] =
    "\n\ndef recomputed(module):\n"
    "    forward = module.forward\n"
    "    norms = [part for part in module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]\n\n"
    "    def call(*args, **kwargs):\n"
    "        calls = []\n\n"
    "        def run(*args, **kwargs):\n"
    "            kept = [dict(norm._buffers) for norm in norms]\n"
    "            if calls:  # once more: running statistics stay as the first time left them\n"
    "                for norm in norms:\n"
    "                    norm._buffers.update({key: b if b is None else b.clone() for key, b in "
    "norm._buffers.items()})\n"
    "            calls.append(1)\n"
    "            try:\n"
    "                return forward(*args, **kwargs)\n"
    "            finally:\n"
    "                for norm, buffers in zip(norms, kept):\n"
    "                    norm._buffers.update(buffers)\n\n"
    "        return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=False, **kwargs)\n\n"
    "    module.forward = call\n\n\n"
    "for name in RECOMPUTE:\n"
    "    recomputed(model.get_submodule(name))\n";
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

static void write_lines(const struct advice *a)
{
    struct mg_writer *w = a->e->w;
    const struct mg_blocks *blocks = &a->blocks;
    size_t agains = blocks->again_count, offloads = blocks->offload_count;
    mg_write_text(w,
                  "\n# To paste after `model` was made; module names as in model.named_modules(). Each module is taken "
                  "as a whole, with\n# its submodules%s:\nimport %sjson\n\nimport torch\n%s",
                  offloads ? ", and what is parked is what autograd saves in it, its inputs too" : "",
                  agains && !blocks->has_batch_norm ? "functools\nimport " : "",
                  agains ? "import torch.utils.checkpoint\n" : "");
    write_names(w, "RECOMPUTE", blocks->again, agains);
    write_names(w, "OFFLOAD", blocks->offload, offloads);
    mg_write_text(w, "\n");
    if (agains)
        mg_write_text(w, "%s", blocks->has_batch_norm ? norm_lines : recompute_lines);
    mg_write_text(w, "%s", offloads ? offload_lines : "");
}

static const char legend[] =
    "#\n"
    "# chunk      it runs part after part: feed it the parts of a batch one by one and join what comes out\n"
    "# offload    its results wait in host memory\n"
    "# recompute  its results are dropped and computed again when the backward pass needs them\n"
    "#\n# Modules that are not listed keep their results until the backward pass has read them.\n#\n";

static void write_figures(const struct advice *a)
{
    const struct mg_plan *plan = a->e->plan;
    struct mg_writer *w = a->e->w;
    mg_write_text(w, "# Advice from a plan of magisd for the graph %s\n", a->e->original->digest);
    mg_write_text(w, "# The whole plan: peak %llu bytes instead of %llu; a step takes %.6g s instead of %.6g s\n",
                  (unsigned long long)plan->figures.peak_bytes, (unsigned long long)plan->original.peak_bytes,
                  plan->figures.latency_s, plan->original.latency_s);
    mg_write_text(w,
                  "# The plan itself, run by format=torch or, of a captured step, by magis_apply.py, reaches that peak "
                  "exactly.\n#\n");
}

/* What the lines alone come to. */
static void write_gain(const struct advice *a)
{
    const struct mg_blocks *blocks = &a->blocks;
    struct mg_writer *w = a->e->w;
    if (blocks->again_count + blocks->offload_count == 0) {
        mg_write_text(w,
                      "# There are no lines to paste for it: of no module as a whole does the plan drop or park about "
                      "half of what lies\n# inside of it. It is advice to follow by hand.\n%s",
                      legend);
        return;
    }
    mg_write_text(
        w,
        "# The lines at the end do a part of that: of %llu bytes of results that wait for the backward pass they "
        "drop %llu\n# and park %llu, inside of the modules that they name. The peak falls by about so much at most."
        "\n# For the exact figure paste them and capture again: magis_capture.py FILE.py:step --fits SIZE%s.\n"
        "# What is marked \"by hand\" they leave out.\n%s",
        (unsigned long long)blocks->kept, (unsigned long long)blocks->dropped, (unsigned long long)blocks->parked,
        blocks->offload_count ? " (it does not see\n# what is parked)" : "", legend);
}

static bool says_anything(const struct advice *a)
{
    for (mg_op op = 0; op < a->forward; op++)
        if (a->fates[op] != MG_FATE_KEEP && !a->e->g->ops[op].is_view)
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
    if (a.by_module)
        a.blocks = mg_choose_blocks(e->g, a.forward, a.fates, e->arena);
    write_figures(&a);
    write_gain(&a);
    if (!a.by_module)
        mg_write_text(e->w, "# The graph names no modules: these are its operators.\n");
    write_table(&a);
    if (a.blocks.again_count + a.blocks.offload_count > 0)
        write_lines(&a);
    return MG_OK;
}
