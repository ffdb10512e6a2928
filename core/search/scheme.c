/* Compiles a set of fission regions (plan/MODEL.md R1-R10) into the evaluator's tables. */
#include "search/scheme.h"

#include <string.h>

#include "search/dimension.h"
#include "search/scheme_priv.h"

enum { DEPTH = MG_SCHEME_MAX_DEPTH };

/* The regions around an operator, outermost first, with its axis in each. */
struct chain {
    uint32_t depth;
    uint32_t region[DEPTH];
    uint32_t axis[DEPTH];
    int64_t scale[DEPTH];
};

struct compiler {
    struct mg_problem *p;
    struct mg_scheme *scheme;
    struct mg_arena *arena;
    const struct mg_region *specs;
    uint32_t count;
    struct chain *chain; /* per operator */
    struct mg_error *why;
    uint64_t workspace; /* the largest of the operator being priced, over its parts */
};

static enum mg_code refuse(struct compiler *c, mg_op op, const char *rule)
{
    return mg_fail(c->why, MG_ERR_INVALID, "", "%s: %s", op == MG_NONE ? "region" : c->p->g->ops[op].name, rule);
}

static const struct mg_axis *axis_of(const struct compiler *c, mg_op op, uint32_t axis)
{
    uint32_t count;
    const struct mg_axis *axes = mg_op_axes(c->p->g, op, &count);
    return axis < count ? &axes[axis] : NULL;
}

static enum mg_code read_specs(struct compiler *c)
{
    struct mg_scheme *scheme = c->scheme;
    for (uint32_t r = 0; r < c->count; r++) {
        const struct mg_region *spec = &c->specs[r];
        struct mg_scheme_region *region = &scheme->regions[r];
        region->parent = spec->parent;
        region->depth = spec->parent == MG_NONE ? 0 : scheme->regions[spec->parent].depth + 1;
        if (region->depth >= DEPTH)
            return refuse(c, MG_NONE, "nested too deeply");
        if (spec->parts < 2 || spec->parts > spec->length)
            return refuse(c, MG_NONE, "needs between 2 parts and as many as its length");
        region->parts = spec->parts;
        if (spec->parent != MG_NONE)
            scheme->regions[spec->parent].has_nested = true;
        region->length = spec->length;
        region->ops = spec->ops;
        region->op_count = spec->op_count;
        for (uint32_t i = 0; i < spec->op_count; i++) {
            mg_op op = spec->ops[i].op;
            struct chain *chain = &c->chain[op];
            if (chain->depth != region->depth || (region->depth && chain->region[region->depth - 1] != spec->parent))
                return refuse(c, op, "regions are neither nested nor disjoint");
            const struct mg_axis *axis = axis_of(c, op, spec->ops[i].axis);
            if (!axis || axis->window)
                return refuse(c, op, "has no such axis to split");
            chain->region[chain->depth] = r;
            chain->axis[chain->depth] = spec->ops[i].axis;
            chain->scale[chain->depth++] = spec->ops[i].scale;
            scheme->region_of[op] = r;
            if (c->p->forbidden[op] & MG_TECHNIQUE_FISSION)
                return refuse(c, op, "is not to be split, says the request");
            if (c->p->computes[op] && mg_op_purity(c->p->g, op) == MG_IMPURE)
                return refuse(c, op, "is impure (R8)");
            if (c->p->g->ops[op].in_place >= 0)
                return refuse(c, op, "works in place");
        }
    }
    return MG_OK;
}

/* Extents of one combination of parts: which part class at each level (0 first, 1 later large, 2 small). */
static bool part_extent(int64_t length, uint32_t parts, uint32_t class, int64_t *extent, uint32_t *repeat)
{
    int64_t large = length % parts;
    int64_t ceil_extent = large ? length / parts + 1 : length / parts;
    int64_t ceil_count = large ? large : parts;
    *extent = class == 2 ? length / parts : ceil_extent;
    *repeat = class == 0 ? 1 : (uint32_t)(class == 1 ? ceil_count - 1 : parts - ceil_count);
    return *repeat != 0;
}

/* The cuts of an operator for part extents (in region units) of its first `depth` levels. */
static uint32_t make_cuts(const struct chain *chain, uint32_t depth, const int64_t *extent, struct mg_cut *cuts)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < depth; k++) {
        uint32_t i = 0;
        while (i < count && cuts[i].axis != chain->axis[k])
            i++;
        cuts[i] = (struct mg_cut){chain->axis[k], 0, extent[k] * chain->scale[k]};
        if (i == count)
            count++;
    }
    return count;
}

/* Length of level 1 within a part of level 0 of the given extent. */
static int64_t inner_length(const struct compiler *c, const struct chain *chain, int64_t outer_extent)
{
    if (chain->axis[0] == chain->axis[1])
        return outer_extent * chain->scale[0] / chain->scale[1];
    return c->specs[chain->region[1]].length;
}

static bool is_inside(const struct compiler *c, mg_op op, uint32_t level, uint32_t region)
{
    const struct chain *chain = &c->chain[op];
    return chain->depth > level && chain->region[level] == region;
}

/* Does anything outside the region at `level` of the root's maker read the root? */
static bool read_outside(const struct compiler *c, mg_op maker, uint32_t level, uint32_t root)
{
    const struct mg_problem *p = c->p;
    if (p->value_flags[root] & MG_VALUE_OUTPUT)
        return true;
    for (uint32_t i = p->root_readers.start[root]; i < p->root_readers.start[root + 1]; i++)
        if (!is_inside(c, p->root_readers.item[i], level, c->chain[maker].region[level]))
            return true;
    return false;
}

/* R1: an operand made inside the region carries its axis in the same dimension on both sides. */
static enum mg_code check_operand(struct compiler *c, mg_op op, uint32_t slot)
{
    const struct mg_problem *p = c->p;
    const struct chain *chain = &c->chain[op];
    mg_value v = p->g->ops[op].in[slot];
    mg_op maker = p->g->values[v].producer, root_maker = p->g->values[p->root[v]].producer;
    for (uint32_t k = 0; k < chain->depth; k++) {
        const struct mg_axis_use use = axis_of(c, op, chain->axis[k])->in[slot];
        bool root_inside = root_maker != MG_NONE && is_inside(c, root_maker, k, chain->region[k]);
        if (maker != MG_NONE && is_inside(c, maker, k, chain->region[k])) {
            const struct chain *from = &c->chain[maker];
            const struct mg_axis_use made = axis_of(c, maker, from->axis[k])->out[p->g->values[v].slot];
            if (made.dim < 0 || use.dim != made.dim || use.unit * chain->scale[k] != made.unit * from->scale[k])
                return refuse(c, op, "reads a value of the region along another axis (R1)");
        } else if (root_inside) {
            return refuse(c, op, "reads a view of a value of the region from outside it (R1)");
        } else if (use.dim >= 0 && p->computes[op]) {
            struct mg_shape shape = p->g->values[v].shape;
            int64_t extent;
            uint32_t repeat;
            part_extent(c->specs[chain->region[k]].length, c->specs[chain->region[k]].parts, 0, &extent, &repeat);
            shape.dim[use.dim] = extent * chain->scale[k] * use.unit;
            if (!mg_op_accepts_layout(p->g, op, slot, &shape, p->g->values[v].stride))
                return refuse(c, op, "would need a slice copy (R4)");
        }
    }
    return MG_OK;
}

/* A box of the buffer that differs from it only in dimension d is contiguous if all before d are 1. */
static bool outermost(const struct mg_shape *shape, int dim)
{
    for (int d = 0; d < dim; d++)
        if (shape->dim[d] != 1)
            return false;
    return true;
}

/* Where a result lives and how it is written. */
static enum mg_code place_result(struct compiler *c, mg_op op, uint32_t slot)
{
    struct mg_problem *p = c->p;
    struct mg_scheme *scheme = c->scheme;
    const struct chain *chain = &c->chain[op];
    uint32_t root = p->g->ops[op].out[slot], top = chain->depth;
    int64_t extent[DEPTH];
    struct mg_cut cuts[DEPTH];
    bool absent = false;
    for (uint32_t k = chain->depth; k-- > 0;)
        if (read_outside(c, op, k, root))
            top = k;
    for (uint32_t k = 0; k < chain->depth; k++) {
        const struct mg_axis *axis = axis_of(c, op, chain->axis[k]);
        uint32_t repeat;
        part_extent(c->specs[chain->region[k]].length, c->specs[chain->region[k]].parts, 0, &extent[k], &repeat);
        if (axis->out[slot].dim < 0) {
            bool dead = p->root_readers.start[root] == p->root_readers.start[root + 1] &&
                        !(p->value_flags[root] & MG_VALUE_OUTPUT);
            if (dead)
                continue; /* local, lives for its step */
            if (axis->combiner == MG_COMBINE_NONE || k < top)
                return refuse(c, op, "has a result in which the axis is missing and cannot be combined (R6)");
            for (uint32_t i = p->root_readers.start[root]; i < p->root_readers.start[root + 1]; i++)
                if (is_inside(c, p->root_readers.item[i], k, chain->region[k]))
                    return refuse(c, op, "has a combined result that the region itself reads (R6)");
            if (p->exact)
                return refuse(c, op, "sums in parts, which `numerics: exact` forbids");
            absent = true;
        } else if (k >= top && !outermost(&p->g->values[root].shape, axis->out[slot].dim)) {
            return refuse(c, op, "would need a join (R5)");
        }
    }
    uint32_t count = make_cuts(chain, top, extent, cuts);
    const struct mg_cut_price *box = mg_problem_cut(p, op, cuts, count);
    if (box->seconds < 0)
        return refuse(c, op, "cannot be cut like this");
    scheme->bytes[root] = mg_device_storage(p->device, mg_cut_out_bytes(box, slot));
    scheme->host[root] = mg_cut_out_bytes(box, slot);
    scheme->home[root] = top == 0 ? MG_NONE : chain->region[top - 1];
    scheme->is_region_output[root] = top < chain->depth;
    if (top < chain->depth) {
        struct mg_scheme_region *region = &scheme->regions[chain->region[top]];
        region->outputs[region->output_count++] = root;
        scheme->mode[root] = absent ? MG_OUTPUT_ACC : MG_OUTPUT_DIRECT;
        if (absent) {
            count = make_cuts(chain, chain->depth, extent, cuts);
            scheme->steps[op].temp +=
                mg_device_storage(p->device, mg_cut_out_bytes(mg_problem_cut(p, op, cuts, count), slot));
        }
    }
    return MG_OK;
}

/* Seconds of one run with the given extents, combining included where the part is not a first one. */
static double run_seconds(struct compiler *c, mg_op op, const int64_t *extent, const uint32_t *class)
{
    struct mg_problem *p = c->p;
    const struct chain *chain = &c->chain[op];
    const struct mg_op_info *info = &p->g->ops[op];
    struct mg_cut cuts[DEPTH];
    const struct mg_cut_price *price = mg_problem_cut(p, op, cuts, make_cuts(chain, chain->depth, extent, cuts));
    double seconds = price->seconds;
    c->workspace = price->workspace > c->workspace ? price->workspace : c->workspace;
    for (uint32_t slot = 0; slot < info->out_count; slot++) {
        uint32_t root = info->out[slot];
        if (p->root[root] != root || !c->scheme->is_region_output[root] || c->scheme->mode[root] != MG_OUTPUT_ACC)
            continue;
        bool first = true;
        for (uint32_t k = 0; k < chain->depth; k++)
            if (axis_of(c, op, chain->axis[k])->out[slot].dim < 0 && class[k] != 0)
                first = false;
        uint64_t bytes = mg_cut_out_bytes(price, slot);
        if (!first)
            seconds += mg_device_acc_latency(p->device, bytes / mg_dtype_size(p->g->values[root].dtype), bytes);
    }
    return seconds;
}

static enum mg_code price_op(struct compiler *c, mg_op op)
{
    struct mg_scheme *scheme = c->scheme;
    const struct chain *chain = &c->chain[op];
    const struct mg_region *outer = &c->specs[chain->region[0]];
    c->workspace = 0;
    for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
        int64_t extent[DEPTH];
        uint32_t repeat, class[DEPTH] = {v, 0};
        if (!part_extent(outer->length, outer->parts, v, &extent[0], &repeat) && v != 0)
            continue;
        if (chain->depth == 1) {
            scheme->seconds[v][op] = run_seconds(c, op, extent, class);
        } else {
            int64_t length = inner_length(c, chain, extent[0]);
            uint32_t parts = c->specs[chain->region[1]].parts, times;
            if (length < parts)
                return refuse(c, op, "has too short an axis for the nested parts");
            for (class[1] = 0; class[1] < 3; class[1]++)
                if (part_extent(length, parts, class[1], &extent[1], &times)) {
                    double s = run_seconds(c, op, extent, class);
                    if (class[1] == 0)
                        scheme->seconds[v][op] = s;
                    else
                        scheme->rest[v][op] += times * s;
                }
        }
        if (v > 0)
            scheme->others[op] += repeat * (scheme->seconds[v][op] + scheme->rest[v][op]);
    }
    scheme->steps[op].temp += mg_device_storage(c->p->device, c->workspace) - c->p->workspace[op];
    return MG_OK;
}

static enum mg_code check_connected(struct compiler *c)
{
    for (uint32_t r = 0; r < c->count; r++) {
        uint32_t count = c->specs[r].op_count;
        mg_op *ops = MG_NEW_ARRAY(c->arena, mg_op, count);
        uint32_t *part = MG_NEW_ARRAY(c->arena, uint32_t, count);
        for (uint32_t i = 0; i < count; i++)
            ops[i] = c->specs[r].ops[i].op;
        bool computes = false;
        for (uint32_t i = 0; i < count; i++)
            computes |= c->p->computes[ops[i]];
        if (!computes)
            return refuse(c, MG_NONE, "holds nothing but views");
        if (mg_connected_parts(c->p->g, ops, count, c->arena, part) > 1)
            return refuse(c, MG_NONE, "its operators are not connected (R10)");
    }
    return MG_OK;
}

static enum mg_code check_lengths(struct compiler *c)
{
    for (uint32_t r = 0; r < c->count; r++)
        for (uint32_t i = 0; i < c->specs[r].op_count; i++) {
            mg_op op = c->specs[r].ops[i].op;
            const struct chain *chain = &c->chain[op];
            uint32_t k = c->scheme->regions[r].depth, repeat;
            int64_t want = axis_of(c, op, chain->axis[k])->length, extent;
            if (k == 1 && chain->axis[0] == chain->axis[1]) {
                part_extent(c->specs[chain->region[0]].length, c->specs[chain->region[0]].parts, 0, &extent, &repeat);
                want = extent * chain->scale[0];
            }
            if (c->specs[r].length * chain->scale[k] != want)
                return refuse(c, op, "has an axis of another length (R1)");
        }
    return MG_OK;
}

/* Store and load times of a root by variant of the outermost part. */
static void price_copies(struct compiler *c, uint32_t root)
{
    struct mg_problem *p = c->p;
    struct mg_scheme *scheme = c->scheme;
    uint64_t bytes[MG_SCHEME_VARIANTS] = {scheme->host[root], scheme->host[root], scheme->host[root]};
    mg_op maker = p->g->values[root].producer;
    if (scheme->home[root] != MG_NONE && scheme->regions[scheme->home[root]].depth == 0) {
        const struct chain *chain = &c->chain[maker];
        const struct mg_region *outer = &c->specs[chain->region[0]];
        for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
            int64_t extent;
            uint32_t repeat;
            struct mg_cut cuts[DEPTH];
            part_extent(outer->length, outer->parts, v, &extent, &repeat);
            bytes[v] = mg_cut_out_bytes(mg_problem_cut(p, maker, cuts, make_cuts(chain, 1, &extent, cuts)),
                                        p->g->values[root].slot);
        }
    }
    for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
        scheme->store_s[v][root] = mg_device_store_latency(p->device, bytes[v]);
        scheme->load_s[v][root] = mg_device_load_latency(p->device, bytes[v]);
    }
}

/* Roots from outside that a region's body (nested ones included) reads. */
static void find_inputs(struct compiler *c)
{
    struct mg_problem *p = c->p;
    uint32_t *seen = MG_NEW_ARRAY(c->arena, uint32_t, p->value_count);
    for (uint32_t r = 0; r < c->count; r++) {
        struct mg_scheme_region *region = &c->scheme->regions[r];
        uint32_t total = 0;
        for (uint32_t i = 0; i < region->op_count; i++)
            total += p->reads.start[region->ops[i].op + 1] - p->reads.start[region->ops[i].op];
        region->inputs = MG_NEW_ARRAY(c->arena, uint32_t, total);
        for (uint32_t i = 0; i < region->op_count; i++) {
            mg_op op = region->ops[i].op;
            for (uint32_t j = p->reads.start[op]; j < p->reads.start[op + 1]; j++) {
                uint32_t root = p->reads.item[j];
                mg_op maker = p->g->values[root].producer;
                if (seen[root] != r + 1 && (maker == MG_NONE || !is_inside(c, maker, region->depth, r))) {
                    seen[root] = r + 1;
                    region->inputs[region->input_count++] = root;
                }
            }
        }
    }
}

struct mg_hash128 mg_scheme_hash(const struct mg_problem *p, const struct mg_region *specs, uint32_t count)
{
    uint64_t variant = p->variant;
    struct mg_hash128 sum = variant ? mg_hash_words(&variant, 1) : (struct mg_hash128){0, 0};
    for (uint32_t r = 0; r < count; r++) {
        const struct mg_region *spec = &specs[r];
        struct mg_hash128 one = {0, 0};
        for (uint32_t i = 0; i < spec->op_count; i++) {
            uint64_t words[3] = {spec->ops[i].op, spec->ops[i].axis, (uint64_t)spec->ops[i].scale};
            one = mg_hash_add(one, mg_hash_words(words, 3));
        }
        uint64_t words[4] = {one.lo, one.hi, (uint64_t)spec->length, spec->parts};
        sum = mg_hash_add(sum, mg_hash_words(words, 4));
    }
    return sum;
}

static void copy_specs(struct compiler *c)
{
    struct mg_region *copy = MG_NEW_ARRAY(c->arena, struct mg_region, c->count);
    for (uint32_t r = 0; r < c->count; r++) {
        copy[r] = c->specs[r];
        copy[r].ops = mg_arena_copy(c->arena, c->specs[r].ops, c->specs[r].op_count * sizeof *copy[r].ops);
    }
    c->specs = c->scheme->specs = copy;
}

static void allocate(struct compiler *c)
{
    struct mg_problem *p = c->p;
    struct mg_scheme *scheme = c->scheme;
    struct mg_arena *a = c->arena;
    scheme->region_count = c->count;
    scheme->regions = MG_NEW_ARRAY(a, struct mg_scheme_region, c->count);
    scheme->region_of = MG_NEW_ARRAY(a, uint32_t, p->op_count);
    scheme->home = MG_NEW_ARRAY(a, uint32_t, p->value_count);
    scheme->mode = MG_NEW_ARRAY(a, uint8_t, p->value_count);
    scheme->is_region_output = MG_NEW_ARRAY(a, uint8_t, p->value_count);
    scheme->bytes = MG_NEW_ARRAY(a, uint64_t, p->value_count);
    memcpy(scheme->bytes, p->bytes, p->value_count * sizeof *p->bytes);
    scheme->host = MG_NEW_ARRAY(a, uint64_t, p->value_count);
    scheme->steps = MG_NEW_ARRAY(a, struct mg_scheme_step, p->op_count);
    for (uint32_t op = 0; op < p->op_count; op++)
        scheme->steps[op].temp = p->workspace[op];
    scheme->others = MG_NEW_ARRAY(a, double, p->op_count);
    for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
        scheme->seconds[v] = mg_arena_copy(a, p->seconds, p->op_count * sizeof *p->seconds);
        scheme->rest[v] = MG_NEW_ARRAY(a, double, p->op_count);
        scheme->store_s[v] = MG_NEW_ARRAY(a, double, p->value_count);
        scheme->load_s[v] = MG_NEW_ARRAY(a, double, p->value_count);
    }
    memset(scheme->region_of, 0xff, p->op_count * sizeof *scheme->region_of);
    memset(scheme->home, 0xff, p->value_count * sizeof *scheme->home);
    for (uint32_t v = 0; v < p->value_count; v++)
        scheme->host[v] = p->g->values[v].bytes;
}

enum mg_code mg_scheme_build(struct mg_problem *p, const struct mg_region *specs, uint32_t count,
                             struct mg_arena *arena, struct mg_scheme **out, struct mg_error *why)
{
    struct compiler c = {
        p, MG_NEW(arena, struct mg_scheme), arena, specs, count, MG_NEW_ARRAY(arena, struct chain, p->op_count), why,
        0};
    allocate(&c);
    copy_specs(&c);
    enum mg_code code = read_specs(&c);
    if (code == MG_OK)
        code = check_lengths(&c);
    if (code == MG_OK)
        code = check_connected(&c);
    for (uint32_t r = 0; r < count && code == MG_OK; r++) {
        uint32_t results = 0;
        for (uint32_t i = 0; i < specs[r].op_count; i++)
            results += p->g->ops[specs[r].ops[i].op].out_count;
        c.scheme->regions[r].outputs = MG_NEW_ARRAY(arena, uint32_t, results);
    }
    for (uint32_t r = 0; r < count && code == MG_OK; r++)
        for (uint32_t i = 0; i < specs[r].op_count && code == MG_OK; i++) {
            mg_op op = specs[r].ops[i].op;
            const struct mg_op_info *info = &p->g->ops[op];
            if (c.scheme->region_of[op] != r)
                continue;
            for (uint32_t k = 0; k < info->in_count && code == MG_OK; k++)
                code = check_operand(&c, op, k);
            for (uint32_t k = 0; k < info->out_count && code == MG_OK && p->computes[op]; k++)
                code = place_result(&c, op, k);
            if (code == MG_OK && p->computes[op])
                code = price_op(&c, op);
        }
    if (code != MG_OK)
        return code;
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t v = 0; v < MG_SCHEME_VARIANTS; v++) {
            int64_t extent;
            part_extent(specs[r].length, specs[r].parts, v, &extent, &c.scheme->regions[r].repeat[v]);
        }
    for (uint32_t v = 0; v < p->value_count; v++)
        if (p->root[v] == v && !(p->value_flags[v] & MG_VALUE_RESIDENT))
            price_copies(&c, v);
    find_inputs(&c);
    mg_scheme_fill_steps(p, c.scheme, arena);
    c.scheme->hash = mg_scheme_hash(p, specs, count);
    c.scheme->p = p;
    *out = c.scheme;
    return MG_OK;
}
