/* Einsum: equations, shape and axes rules. */
#include "graph/einsum.h"

#include <string.h>

#include "graph/ops_priv.h"

uint32_t mg_einsum_index(char letter)
{
    return letter <= 'Z' ? (uint32_t)(letter - 'A') : (uint32_t)(letter - 'a') + 26;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int mg_einsum_at(const char *letters, char letter)
{
    const char *at = strchr(letters, letter);
    return at && letter ? (int)(at - letters) : -1;
}

void mg_einsum_parse(const char *equation, struct mg_einsum *out)
{
    uint32_t length = 0;
    memset(out, 0, sizeof *out);
    for (const char *c = equation; *c; c++) {
        if (is_letter(*c) && length < MG_MAX_RANK) {
            out->letters[out->operands][length++] = *c;
        } else if ((*c == ',' || *c == '-') && out->operands < MG_EINSUM_OPERANDS) {
            out->operands++;
            length = 0;
        }
    }
}

bool mg_einsum_sizes(const struct mg_einsum *e, const struct mg_shape *in, int64_t size[MG_EINSUM_LETTERS])
{
    memset(size, 0, MG_EINSUM_LETTERS * sizeof *size);
    for (uint32_t i = 0; i < e->operands; i++) {
        for (uint32_t d = 0; d < in[i].rank; d++) {
            int64_t *have = &size[mg_einsum_index(e->letters[i][d])], dim = in[i].dim[d];
            if (*have > 1 && dim != 1 && dim != *have)
                return false;
            if (*have <= 1)
                *have = dim;
        }
    }
    return true;
}

/* ---- the equation as it is given: blanks, "...", the result left out ---- */

struct given {
    struct mg_infer *t;
    const char *at;
    uint32_t dots; /* dimensions that "..." stands for, the most of any operand */
    struct mg_einsum e;
};

static enum mg_code bad(struct given *g, const char *why)
{
    return mg_infer_fail(g->t, "/attrs/equation", "the equation '%.60s' %s",
                         mg_infer_attr(g->t, MG_ATTR_EQUATION)->string, why);
}

/* The last `count` of the capitals that stand for "...": the dimensions are aligned at their ends. */
static void put_dots(char *letters, uint32_t *length, uint32_t count)
{
    for (uint32_t i = 0; i < count && *length < MG_MAX_RANK; i++)
        letters[(*length)++] = (char)('Z' - count + 1 + i);
}

/* Letters up to a comma, an arrow or the end. `rank`: of the operand. */
static enum mg_code take_term(struct given *g, char *letters, uint32_t rank, bool result)
{
    uint32_t length = 0, named = 0;
    bool dots = false;
    for (const char *c = g->at; *c && *c != ',' && *c != '-'; c++)
        named += is_letter(*c);
    if (!result && named > rank)
        return bad(g, "has more letters than an operand has dimensions");
    for (; *g->at && *g->at != ',' && *g->at != '-'; g->at++) {
        if (*g->at == ' ')
            continue;
        if (strncmp(g->at, "...", 3) == 0 && !dots) {
            uint32_t count = result ? g->dots : rank - named;
            dots = true;
            g->at += 2;
            g->dots = count > g->dots ? count : g->dots;
            put_dots(letters, &length, count);
        } else if (is_letter(*g->at) && length < MG_MAX_RANK) {
            letters[length++] = *g->at;
        } else {
            return bad(g, "is no list of letters");
        }
    }
    if (!result && length != rank)
        return bad(g, "has not a letter for each dimension of an operand");
    return MG_OK;
}

/* Without an arrow: "..." and every letter that occurs once, in alphabetical order. */
static enum mg_code imply_result(struct given *g)
{
    uint32_t length = 0;
    char *result = MG_EINSUM_RESULT(&g->e);
    put_dots(result, &length, g->dots);
    for (char c = 'A'; c <= (char)'z'; c++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < g->e.operands && is_letter(c); i++)
            for (const char *l = g->e.letters[i]; *l; l++)
                count += *l == c;
        if (count != 1 || mg_einsum_at(result, c) >= 0)
            continue;
        if (length == MG_MAX_RANK)
            return bad(g, "gives too many dimensions");
        result[length++] = c;
    }
    return MG_OK;
}

static enum mg_code take_equation(struct given *g)
{
    struct mg_infer *t = g->t;
    g->at = mg_infer_attr(t, MG_ATTR_EQUATION)->string;
    for (uint32_t i = 0; i < t->in_count; i++) {
        MG_TRY(take_term(g, g->e.letters[i], t->in[i].rank, false));
        if (i + 1 < t->in_count && *g->at++ != ',')
            return bad(g, "has fewer terms than operands");
    }
    g->e.operands = t->in_count;
    if (*g->at == 0)
        return imply_result(g);
    if (g->at[0] != '-' || g->at[1] != '>')
        return bad(g, "has more terms than operands");
    g->at += 2;
    return take_term(g, MG_EINSUM_RESULT(&g->e), 0, true);
}

enum mg_code mg_shape_einsum(struct mg_infer *t)
{
    struct given g = {.t = t};
    int64_t size[MG_EINSUM_LETTERS];
    const char *text = "";
    MG_TRY(mg_infer_same_dtype(t));
    MG_TRY(take_equation(&g));
    const char *result = MG_EINSUM_RESULT(&g.e);
    if (!mg_einsum_sizes(&g.e, t->in, size))
        return mg_infer_fail(t, "/inputs", "the operands' sizes do not fit the equation");
    t->out[0] = (struct mg_shape){.rank = (uint32_t)strlen(result)};
    t->out_dtype[0] = t->in_dtype[0];
    for (uint32_t d = 0; d < t->out[0].rank; d++) {
        bool known = mg_einsum_at(result, result[d]) == (int)d, found = false;
        for (uint32_t i = 0; i < t->in_count; i++)
            found = found || mg_einsum_at(g.e.letters[i], result[d]) >= 0;
        if (!known || !found)
            return bad(&g, "has a result with a letter twice, or one that no operand has");
        t->out[0].dim[d] = size[mg_einsum_index(result[d])];
    }
    for (uint32_t i = 0; i < t->in_count; i++)
        text = mg_arena_printf(t->arena, "%s%s%s", text, i ? "," : "", g.e.letters[i]);
    mg_infer_attr(t, MG_ATTR_EQUATION)->string = mg_arena_printf(t->arena, "%s->%s", text, result);
    return MG_OK;
}

int64_t mg_einsum_stride(const char *letters, const struct mg_shape *shape, char letter)
{
    int64_t stride[MG_MAX_RANK], sum = 0;
    mg_shape_strides(shape, stride);
    for (uint32_t d = 0; d < shape->rank; d++)
        sum += letters[d] == letter && shape->dim[d] != 1 ? stride[d] : 0;
    return sum;
}

/* ---- axes: one for each letter, a sum where the result lacks it; not where an operand has it twice ---- */

void mg_axes_einsum(struct mg_axes *t)
{
    const struct mg_op_desc *desc = t->desc;
    struct mg_einsum e;
    int64_t size[MG_EINSUM_LETTERS];
    int number = 0;
    mg_einsum_parse(mg_attr_find(desc->attrs, desc->attr_count, MG_ATTR_EQUATION)->string, &e);
    (void)mg_einsum_sizes(&e, desc->in_shape, size);
    for (char c = 'A'; c <= (char)'z'; c++) {
        bool twice = false;
        if (!is_letter(c) || size[mg_einsum_index(c)] == 0)
            continue;
        for (uint32_t i = 0; i < e.operands; i++) {
            int at = mg_einsum_at(e.letters[i], c);
            twice = twice || (at >= 0 && mg_einsum_at(e.letters[i] + at + 1, c) >= 0);
        }
        if (twice)
            continue;
        int to = mg_einsum_at(MG_EINSUM_RESULT(&e), c);
        uint32_t a = mg_axes_open(t, to < 0 ? "k" : "d", number++, size[mg_einsum_index(c)],
                                  to < 0 ? MG_COMBINE_SUM : MG_COMBINE_NONE);
        mg_axes_out(t, a, 0, to, 1);
        for (uint32_t i = 0; i < e.operands; i++) {
            int at = mg_einsum_at(e.letters[i], c);
            if (at >= 0 && desc->in_shape[i].dim[at] == size[mg_einsum_index(c)])
                mg_axes_in(t, a, i, at, 1);
        }
    }
}
