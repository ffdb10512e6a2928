/* Sums of products by equation, and determinants.
 *
 * Of two operands every equation is a batch of matrix products: letters of both and the result count the batch, letters
 * of one operand and the result its rows or columns, letters that the result has not are summed. An operand that does
 * not lie in such an order (transposed or not) is copied into it first; where a summed letter is of one operand only,
 * the other is repeated. Of more operands, the first two are multiplied, then what they give and the third, and so on;
 * a letter is summed as soon as nothing that follows has it. Of one operand, or with too many letters for a shape, one
 * loop runs over all letters. */
#include "graph/einsum.h"

#include <math.h>
#include <string.h>

#include "measure/cpu_priv.h"

enum { STAGES = MG_EINSUM_OPERANDS - 1, TENSORS = MG_EINSUM_OPERANDS + 1 + STAGES };
struct letters { /* of more than one element */
    uint32_t count, tensors;
    int64_t size[MG_EINSUM_LETTERS];
    int64_t stride[TENSORS][MG_EINSUM_LETTERS]; /* operands, the result, what is between */
};

static void read_letters(const struct mg_prepared *p, struct letters *l)
{
    struct mg_einsum e;
    int64_t size[MG_EINSUM_LETTERS];
    const char *equation = "";
    for (uint32_t i = 0; i < p->op.attr_count; i++)
        equation = p->op.attrs[i].key == MG_ATTR_EQUATION ? p->op.attrs[i].string : equation;
    mg_einsum_parse(equation, &e);
    (void)mg_einsum_sizes(&e, p->op.in_shape, size);
    *l = (struct letters){.tensors = e.operands + 1};
    for (int c = 'A'; c <= 'z'; c++) {
        if ((c > 'Z' && c < 'a') || size[mg_einsum_index((char)c)] <= 1)
            continue;
        l->size[l->count] = size[mg_einsum_index((char)c)];
        for (uint32_t i = 0; i < l->tensors; i++)
            l->stride[i][l->count] =
                mg_einsum_stride(e.letters[i], i < e.operands ? &p->op.in_shape[i] : &p->op.out_shape[0], (char)c);
        l->count++;
    }
}

/* ---- one loop over all letters: the innermost is the one whose elements lie closest in the result ---- */

enum { PIECE = 256 };

static void multiply_row(const struct cpu_call *call, const struct letters *l, const int64_t *at)
{
    const uint32_t last = l->count - 1, result = l->tensors - 1;
    float product[PIECE], *out = (float *)call->out[0] + at[result];
    const int64_t step = l->stride[result][last];
    for (int64_t begin = 0; begin < l->size[last]; begin += PIECE) {
        int64_t n = l->size[last] - begin < PIECE ? l->size[last] - begin : PIECE;
        for (uint32_t t = 0; t < result; t++) {
            const int64_t own = l->stride[t][last];
            const float *x = (const float *)call->in[t] + at[t] + begin * own;
            for (int64_t i = 0; i < n; i++)
                product[i] = t ? product[i] * x[i * own] : x[i * own];
        }
        float sum = 0;
        for (int64_t i = 0; i < n && step == 0; i++)
            sum += product[i];
        *out += sum;
        for (int64_t i = 0; i < n && step != 0; i++)
            out[(begin + i) * step] += product[i];
    }
}

static enum mg_code run_loop(const struct cpu_call *call)
{
    const struct letters *l = ((const struct cpu_op *)call->p->detail)->data;
    int64_t index[MG_EINSUM_LETTERS] = {0}, at[MG_EINSUM_OPERANDS + 1] = {0};
    memset(call->out[0], 0, (size_t)mg_shape_elements(&call->p->op.out_shape[0]) * sizeof(float));
    for (;;) {
        multiply_row(call, l, at);
        uint32_t d = l->count - 1;
        while (d > 0 && ++index[d - 1] == l->size[d - 1]) {
            d--;
            index[d] = 0;
            for (uint32_t t = 0; t < l->tensors; t++)
                at[t] -= (l->size[d] - 1) * l->stride[t][d];
        }
        if (d == 0)
            return MG_OK;
        for (uint32_t t = 0; t < l->tensors; t++)
            at[t] += l->stride[t][d - 1];
    }
}

static void swap_letters(struct letters *l, uint32_t a, uint32_t b)
{
    int64_t size = l->size[a];
    l->size[a] = l->size[b];
    l->size[b] = size;
    for (uint32_t t = 0; t < l->tensors; t++) {
        int64_t stride = l->stride[t][a];
        l->stride[t][a] = l->stride[t][b];
        l->stride[t][b] = stride;
    }
}

/* In descending order of their steps in the result; before all others those that it has not, by the first operand. */
static void order_letters(struct letters *l)
{
    const int64_t *step = l->stride[l->tensors - 1], *first = l->stride[0];
    for (uint32_t i = 1; i < l->count; i++)
        for (uint32_t j = i; j > 0; j--) {
            bool summed = step[j - 1] == 0 && step[j] == 0;
            bool earlier =
                summed ? first[j] > first[j - 1] : step[j - 1] != 0 && (step[j] == 0 || step[j] > step[j - 1]);
            if (earlier)
                swap_letters(l, j - 1, j);
        }
    if (l->count == 0) { /* of single elements */
        l->size[0] = 1;
        l->count = 1;
    }
}

/* ---- products of matrices ---- */

enum role { BATCH, ROWS, COLUMNS, SUMMED, ROLES };

struct factor { /* a tensor as [batch, one side, other side] */
    uint32_t tensor;
    bool transposed;
    uint64_t at; /* MG_NO_PACK: it lies so */
    struct mg_shape shape;
    int64_t stride[MG_MAX_RANK]; /* where each of these letters is found */
};
struct product {
    struct factor a, b, c;
    struct onednn_op *dnn;
};
struct products {
    struct letters letters;
    uint32_t stages;
    struct product stage[STAGES];
    uint64_t between[STAGES]; /* what each stage but the last gives, in the scratch */
};

static enum role role_of(const struct letters *l, const struct product *s, uint32_t letter)
{
    bool in_a = l->stride[s->a.tensor][letter] != 0, in_b = l->stride[s->b.tensor][letter] != 0;
    if (l->stride[s->c.tensor][letter] == 0)
        return in_a || in_b ? SUMMED : ROLES;
    return in_a && in_b ? BATCH : in_a ? ROWS : COLUMNS;
}

/* Lays a tensor out as batch, then the letters of two roles; false where they are too many. */
static bool lay_out(const struct letters *l, const enum role *roles, enum role second, enum role third,
                    struct factor *f)
{
    const enum role order[] = {BATCH, second, third};
    f->shape.rank = 0;
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t i = 0; i < l->count; i++) {
            if (roles[i] != order[r])
                continue;
            if (f->shape.rank == MG_MAX_RANK)
                return false;
            f->stride[f->shape.rank] = l->stride[f->tensor][i];
            f->shape.dim[f->shape.rank++] = l->size[i];
        }
    return true;
}

/* As it lies, in one order of its sides or the other; else it is to be copied. */
static bool place(struct mg_prepared *p, const struct letters *l, const enum role *roles, enum role second,
                  enum role third, struct factor *f)
{
    f->at = MG_NO_PACK;
    for (int turn = 0; turn < 2; turn++) {
        f->transposed = turn == 1;
        if (!lay_out(l, roles, turn ? third : second, turn ? second : third, f))
            return false;
        if (mg_layout_contiguous(&f->shape, f->stride))
            return true;
    }
    f->transposed = false;
    (void)lay_out(l, roles, second, third, f);
    f->at = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&f->shape) * sizeof(float));
    return true;
}

static void copy(const struct factor *f, const void *outside, void *inside, bool enter)
{
    int64_t dense[MG_MAX_RANK];
    union {
        const void *from;
        void *to;
    } cast = {.from = outside};
    mg_shape_strides(&f->shape, dense);
    struct cpu_side given = {cast.to, MG_DTYPE_F32, f->stride}, own = {inside, MG_DTYPE_F32, dense};
    mg_cpu_move(&f->shape, enter ? &own : &given, enter ? &given : &own);
}

static const float *entered(const struct cpu_call *call, const struct products *x, const struct factor *f)
{
    bool given = f->tensor < x->letters.tensors - 1;
    const void *outside = given ? call->in[f->tensor] : call->scratch + x->between[f->tensor - x->letters.tensors];
    if (f->at == MG_NO_PACK)
        return outside;
    copy(f, outside, call->scratch + f->at, true);
    return (const float *)(const void *)(call->scratch + f->at);
}

static enum mg_code run_products(const struct cpu_call *call)
{
    const struct products *x = ((const struct cpu_op *)call->p->detail)->data;
    enum mg_code code = MG_OK;
    for (uint32_t i = 0; i < x->stages && code == MG_OK; i++) {
        const struct product *s = &x->stage[i];
        void *outside = i + 1 < x->stages ? (void *)(call->scratch + x->between[i]) : call->out[0];
        void *c = s->c.at == MG_NO_PACK ? outside : (void *)(call->scratch + s->c.at);
        code = mg_cpu_dense_product_run(s->dnn, call, entered(call, x, &s->a), entered(call, x, &s->b), c);
        if (c != outside && code == MG_OK)
            copy(&s->c, outside, c, false);
    }
    return code;
}

/* What stage i gives has the letters of its factors that the result or an operand to come has, in the order of a
 * product of matrices. */
static bool lay_between(struct mg_prepared *p, struct products *x, uint32_t i)
{
    struct letters *l = &x->letters;
    struct product *s = &x->stage[i];
    enum role roles[MG_EINSUM_LETTERS];
    int64_t dense[MG_MAX_RANK], *stride = l->stride[s->c.tensor];
    for (uint32_t letter = 0; letter < l->count; letter++)
        for (uint32_t later = i + 2; later < l->tensors; later++)
            if (l->stride[later][letter] != 0)
                stride[letter] = l->stride[s->a.tensor][letter] != 0 || l->stride[s->b.tensor][letter] != 0;
    for (uint32_t letter = 0; letter < l->count; letter++)
        roles[letter] = role_of(l, s, letter);
    if (!lay_out(l, roles, ROWS, COLUMNS, &s->c))
        return false;
    mg_shape_strides(&s->c.shape, dense);
    for (uint32_t r = BATCH, at = 0; r <= COLUMNS; r++)
        for (uint32_t letter = 0; letter < l->count; letter++)
            if (roles[letter] == r)
                stride[letter] = dense[at++];
    x->between[i] = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&s->c.shape) * sizeof(float));
    return true;
}

/* The result's side that comes first is that of the first factor, if it lies in either order. */
static bool lay_stage(struct mg_prepared *p, const struct letters *l, struct product *s)
{
    enum role roles[MG_EINSUM_LETTERS];
    for (int turn = 0; turn < 2; turn++) {
        uint32_t a = s->a.tensor;
        s->a.tensor = turn ? s->b.tensor : a;
        s->b.tensor = turn ? a : s->b.tensor;
        for (uint32_t i = 0; i < l->count; i++)
            roles[i] = role_of(l, s, i);
        if (!lay_out(l, roles, ROWS, COLUMNS, &s->c))
            return false;
        if (mg_layout_contiguous(&s->c.shape, s->c.stride))
            break;
    }
    s->c.at = MG_NO_PACK;
    if (!mg_layout_contiguous(&s->c.shape, s->c.stride))
        s->c.at = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&s->c.shape) * sizeof(float));
    return place(p, l, roles, ROWS, SUMMED, &s->a) && place(p, l, roles, SUMMED, COLUMNS, &s->b);
}

static bool as_products(struct mg_prepared *p, struct products *x)
{
    const struct letters *l = &x->letters;
    x->stages = p->op.in_count - 1;
    for (uint32_t i = 0; i < x->stages; i++) {
        struct product *s = &x->stage[i];
        bool last = i + 1 == x->stages;
        s->a.tensor = i ? l->tensors + i - 1 : 0;
        s->b.tensor = i + 1;
        s->c.tensor = last ? l->tensors - 1 : l->tensors + i;
        if ((!last && !lay_between(p, x, i)) || !lay_stage(p, l, s))
            return false;
    }
    return x->stages > 0;
}

static enum mg_code prepare_products(struct mg_prepared *p, struct cpu_op *op, struct products *x, struct mg_error *err)
{
    const struct letters *l = &x->letters;
    enum mg_code code = MG_OK;
    op->data = x;
    op->run = run_products;
    for (uint32_t i = 0; i < x->stages && code == MG_OK; i++) {
        struct product *s = &x->stage[i];
        int64_t size[ROLES + 1] = {1, 1, 1, 1, 1};
        for (uint32_t letter = 0; letter < l->count; letter++)
            size[role_of(l, s, letter)] *= l->size[letter];
        struct cpu_product product = {size[BATCH],  size[ROWS],      size[COLUMNS],
                                      size[SUMMED], s->a.transposed, s->b.transposed};
        code = mg_cpu_dense_product(p, op, &product, &s->dnn, err);
    }
    return code;
}

enum mg_code mg_cpu_einsum(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct products *x = MG_NEW(&p->arena, struct products);
    bool empty = false;
    for (uint32_t i = 0; i < p->op.in_count; i++)
        empty = empty || mg_shape_elements(&p->op.in_shape[i]) == 0;
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32 || empty)
        return mg_cpu_by_reference(p, op, err);
    read_letters(p, &x->letters);
    order_letters(&x->letters);
    if (as_products(p, x))
        return prepare_products(p, op, x, err);
    op->data = &x->letters;
    op->run = run_loop;
    return MG_OK;
}

/* ---- determinants: elimination with the largest pivot of each column ---- */

static int64_t pivot_of(const double *m, int64_t n, int64_t column)
{
    int64_t pivot = column;
    for (int64_t r = column + 1; r < n; r++)
        pivot = fabs(m[r * n + column]) > fabs(m[pivot * n + column]) ? r : pivot;
    return pivot;
}

static double determinant(double *m, int64_t n)
{
    double det = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = pivot_of(m, n, c);
        if (m[pivot * n + c] == 0)
            return 0;
        for (int64_t j = c; j < n && pivot != c; j++) {
            double other = m[pivot * n + j];
            m[pivot * n + j] = m[c * n + j];
            m[c * n + j] = -other; /* keeps the sign */
        }
        for (int64_t r = c + 1; r < n; r++) {
            double factor = m[r * n + c] / m[c * n + c];
            for (int64_t j = c; j < n; j++)
                m[r * n + j] -= factor * m[c * n + j];
        }
        det *= m[c * n + c];
    }
    return det;
}

static enum mg_code run_det(const struct cpu_call *call)
{
    const struct mg_shape *x = &call->p->op.in_shape[0];
    int64_t n = x->dim[x->rank - 1];
    double *copied = (double *)(void *)call->scratch;
    const float *in = call->in[0];
    float *out = call->out[0];
    for (int64_t i = 0; i < mg_shape_elements(&call->p->op.out_shape[0]); i++, in += n * n) {
        for (int64_t k = 0; k < n * n; k++)
            copied[k] = (double)in[k];
        out[i] = (float)determinant(copied, n);
    }
    return MG_OK;
}

enum mg_code mg_cpu_det(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    const struct mg_shape *x = &p->op.in_shape[0];
    int64_t n = x->dim[x->rank - 1];
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32)
        return mg_cpu_by_reference(p, op, err);
    (void)mg_cpu_reserve(p, (uint64_t)(n * n) * sizeof(double)); /* the first of the scratch */
    op->run = run_det;
    return MG_OK;
}
