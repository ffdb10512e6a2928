/* Sums of products by equation, and determinants.
 *
 * Of two operands every equation is a batch of matrix products: letters of both and the result count the batch, letters
 * of one operand and the result its rows or columns, letters that the result has not are summed. An operand that does
 * not lie in such an order (transposed or not) is copied into it first; where a summed letter is of one operand only,
 * the other is repeated. Other equations run in one loop over all letters. */
#include "graph/einsum.h"

#include <math.h>
#include <string.h>

#include "measure/cpu_priv.h"

struct letters { /* of more than one element */
    uint32_t count, tensors;
    int64_t size[MG_EINSUM_LETTERS], stride[MG_EINSUM_OPERANDS + 1][MG_EINSUM_LETTERS]; /* the result's last */
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

/* In descending order of their steps in the result, those that it has not before all others. */
static void order_letters(struct letters *l)
{
    const int64_t *step = l->stride[l->tensors - 1];
    for (uint32_t i = 1; i < l->count; i++)
        for (uint32_t j = i; j > 0; j--) {
            bool later = step[j - 1] != 0 && (step[j] == 0 || step[j] > step[j - 1]);
            if (later)
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
struct products {
    struct letters letters;
    struct factor a, b, c;
    struct onednn_op *dnn;
};

static enum role role_of(const struct letters *l, const struct factor *a, const struct factor *b, uint32_t letter)
{
    bool in_a = l->stride[a->tensor][letter] != 0, in_b = l->stride[b->tensor][letter] != 0;
    if (l->stride[l->tensors - 1][letter] == 0)
        return SUMMED;
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

static const float *entered(const struct cpu_call *call, const struct factor *f)
{
    if (f->at == MG_NO_PACK)
        return call->in[f->tensor];
    copy(f, call->in[f->tensor], call->scratch + f->at, true);
    return (const float *)(const void *)(call->scratch + f->at);
}

static enum mg_code run_products(const struct cpu_call *call)
{
    const struct products *x = ((const struct cpu_op *)call->p->detail)->data;
    bool apart = x->c.at != MG_NO_PACK;
    float *c = apart ? (float *)(void *)(call->scratch + x->c.at) : call->out[0];
    enum mg_code code = mg_cpu_dense_product_run(x->dnn, call, entered(call, &x->a), entered(call, &x->b), c);
    if (apart && code == MG_OK)
        copy(&x->c, call->out[0], c, false);
    return code;
}

/* The result's side that comes first is that of the first operand, if it lies in either order. */
static bool as_products(struct mg_prepared *p, struct products *x)
{
    const struct letters *l = &x->letters;
    enum role roles[MG_EINSUM_LETTERS];
    for (int turn = 0; turn < 2; turn++) {
        x->a.tensor = turn ? 1 : 0;
        x->b.tensor = turn ? 0 : 1;
        x->c.tensor = 2;
        for (uint32_t i = 0; i < l->count; i++)
            roles[i] = role_of(l, &x->a, &x->b, i);
        if (!lay_out(l, roles, ROWS, COLUMNS, &x->c))
            return false;
        if (mg_layout_contiguous(&x->c.shape, x->c.stride))
            break;
    }
    x->c.at = MG_NO_PACK;
    if (!mg_layout_contiguous(&x->c.shape, x->c.stride))
        x->c.at = mg_cpu_reserve(p, (uint64_t)mg_shape_elements(&x->c.shape) * sizeof(float));
    return place(p, l, roles, ROWS, SUMMED, &x->a) && place(p, l, roles, SUMMED, COLUMNS, &x->b);
}

static enum mg_code prepare_products(struct mg_prepared *p, struct cpu_op *op, struct products *x, struct mg_error *err)
{
    const struct letters *l = &x->letters;
    int64_t size[ROLES] = {1, 1, 1, 1};
    for (uint32_t i = 0; i < l->count; i++)
        size[role_of(l, &x->a, &x->b, i)] *= l->size[i];
    struct cpu_product product = {size[BATCH],  size[ROWS],      size[COLUMNS],
                                  size[SUMMED], x->a.transposed, x->b.transposed};
    op->data = x;
    op->run = run_products;
    return mg_cpu_dense_product(p, op, &product, &x->dnn, err);
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
    if (p->op.in_count == 2 && as_products(p, x))
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
