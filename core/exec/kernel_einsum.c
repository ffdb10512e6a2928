/* Sums of products by equation, windows as columns, determinants. */
#include "graph/einsum.h"

#include <math.h>
#include <string.h>

#include "exec/kernels.h"

/* ---- einsum: one loop over all letters ---- */

struct letters {
    int64_t stride[MG_EINSUM_OPERANDS + 1][MG_EINSUM_LETTERS];
    int64_t size[MG_EINSUM_LETTERS];
    uint32_t count;
};

static void letters_init(struct letters *l, const struct mg_kernel *k, const struct mg_einsum *e)
{
    int64_t size[MG_EINSUM_LETTERS];
    l->count = 0;
    (void)mg_einsum_sizes(e, k->op->in_shape, size);
    for (char c = 'A'; c <= (char)'z'; c++) {
        if ((c > 'Z' && c < 'a') || size[mg_einsum_index(c)] == 0)
            continue;
        l->size[l->count] = size[mg_einsum_index(c)];
        for (uint32_t i = 0; i < e->operands; i++)
            l->stride[i][l->count] = mg_einsum_stride(e->letters[i], &k->op->in_shape[i], c);
        l->stride[e->operands][l->count] = mg_einsum_stride(MG_EINSUM_RESULT(e), &k->op->out_shape[0], c);
        l->count++;
    }
}

static int64_t position(const struct letters *l, uint32_t tensor, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < l->count; i++)
        at += index[i] * l->stride[tensor][i];
    return at;
}

static bool next(const struct letters *l, int64_t *index)
{
    for (uint32_t i = l->count; i-- > 0;) {
        if (++index[i] < l->size[i])
            return true;
        index[i] = 0;
    }
    return false;
}

enum mg_code kernel_einsum(const struct mg_kernel *k)
{
    struct mg_einsum e;
    struct letters l;
    int64_t index[MG_EINSUM_LETTERS] = {0};
    mg_einsum_parse(mg_kernel_text(k, MG_ATTR_EQUATION), &e);
    for (uint32_t i = 0; i < e.operands; i++)
        if (mg_kernel_in_count(k, i) == 0)
            return MG_OK;
    letters_init(&l, k, &e);
    do {
        double product = 1;
        for (uint32_t i = 0; i < e.operands; i++)
            product *= k->in[i][position(&l, i, index)];
        k->out[0][position(&l, e.operands, index)] += product;
    } while (next(&l, index));
    return MG_OK;
}

/* ---- windows as columns ---- */

struct columns {
    uint32_t rank;
    struct mg_shape image, kernel, windows; /* spatial */
    int64_t planes;                         /* samples * channels */
};

static void columns_init(struct columns *c, const struct mg_kernel *k, const struct mg_shape *image)
{
    *c = (struct columns){.rank = image->rank - 2, .planes = image->dim[0] * image->dim[1]};
    c->image.rank = c->kernel.rank = c->windows.rank = c->rank;
    for (uint32_t d = 0; d < c->rank; d++) {
        int64_t size = image->dim[d + 2], kernel = mg_kernel_ints(k, MG_ATTR_KERNEL_SHAPE, d, 1);
        int64_t pads = mg_kernel_ints(k, MG_ATTR_PADS, d, 0) + mg_kernel_ints(k, MG_ATTR_PADS, d + c->rank, 0);
        int64_t reach = mg_kernel_ints(k, MG_ATTR_DILATIONS, d, 1) * (kernel - 1) + 1;
        c->image.dim[d] = size;
        c->kernel.dim[d] = kernel;
        c->windows.dim[d] = (size + pads - reach) / mg_kernel_ints(k, MG_ATTR_STRIDES, d, 1) + 1;
    }
}

/* Where element `at` of window `w` lies in a plane, or -1 in the padding. */
static int64_t image_at(const struct columns *c, const struct mg_kernel *k, const int64_t *w, const int64_t *at)
{
    int64_t flat = 0;
    for (uint32_t d = 0; d < c->rank; d++) {
        int64_t x = w[d] * mg_kernel_ints(k, MG_ATTR_STRIDES, d, 1) +
                    at[d] * mg_kernel_ints(k, MG_ATTR_DILATIONS, d, 1) - mg_kernel_ints(k, MG_ATTR_PADS, d, 0);
        if (x < 0 || x >= c->image.dim[d])
            return -1;
        flat = flat * c->image.dim[d] + x;
    }
    return flat;
}

/* Columns are [plane, element of the window, window]. */
static enum mg_code columns_run(const struct mg_kernel *k, const struct mg_shape *image, bool add)
{
    struct columns c;
    columns_init(&c, k, image);
    int64_t size = mg_shape_elements(&c.image), kernel = mg_shape_elements(&c.kernel);
    int64_t windows = mg_shape_elements(&c.windows), at[MG_MAX_RANK] = {0}, w[MG_MAX_RANK] = {0};
    for (int64_t e = 0; e < kernel; e++, mg_walk_next(&c.kernel, at))
        for (int64_t i = 0; i < windows; i++, mg_walk_next(&c.windows, w)) {
            int64_t x = image_at(&c, k, w, at);
            for (int64_t p = 0; p < c.planes && x >= 0; p++) {
                int64_t column = (p * kernel + e) * windows + i;
                if (add)
                    k->out[0][p * size + x] += k->in[0][column];
                else
                    k->out[0][column] = k->in[0][p * size + x];
            }
        }
    return MG_OK;
}

enum mg_code kernel_im2col(const struct mg_kernel *k)
{
    return columns_run(k, &k->op->in_shape[0], false);
}

enum mg_code kernel_col2im(const struct mg_kernel *k)
{
    return columns_run(k, &k->op->out_shape[0], true);
}

/* ---- determinants: elimination with the largest pivot of each column ---- */

static double determinant(double *m, int64_t n)
{
    double det = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            pivot = fabs(m[r * n + c]) > fabs(m[pivot * n + c]) ? r : pivot;
        if (m[pivot * n + c] == 0)
            return 0;
        for (int64_t j = 0; j < n && pivot != c; j++) {
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

enum mg_code kernel_det(const struct mg_kernel *k)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    int64_t n = x->dim[x->rank - 1];
    double *copy = MG_NEW_ARRAY(k->scratch, double, n *n);
    for (int64_t i = 0; i < mg_kernel_out_count(k, 0); i++) {
        memcpy(copy, k->in[0] + i * n * n, (size_t)(n * n) * sizeof *copy);
        k->out[0][i] = determinant(copy, n);
    }
    return MG_OK;
}
