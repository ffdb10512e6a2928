/* Families of kernels: windows over planes, resampling. */
#include <stdio.h>

#include "measure/cuda_family.h"

/* ---- windows ---- */

void mg_cuda_define_sizes(struct family *f, const char *letter, const struct mg_shape *shape)
{
    char name[8];
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t from = shape->rank + d < 3 ? 0 : shape->rank + d - 3;
        snprintf(name, sizeof name, "%s%u", letter, d);
        define(f, name, from < 2 ? 1 : shape->dim[from]);
    }
}

/* Attribute of each of up to three spatial dimensions, from the last on. */
void mg_cuda_define_each(struct family *f, const char *letter, enum mg_attr_key key, uint32_t spatial, uint32_t skip,
                         int64_t fallback, int64_t absent)
{
    char name[8];
    for (uint32_t d = 0; d < 3; d++) {
        bool there = d + spatial >= 3;
        snprintf(name, sizeof name, "%s%u", letter, d);
        define(f, name, there ? mg_prepared_ints(f->p, key, d + spatial - 3 + skip, fallback) : absent);
    }
}

bool mg_cuda_define_windows(struct family *f, const struct mg_shape *x, const struct mg_shape *y)
{
    uint32_t spatial = x->rank - 2;
    if (x->rank < 3 || x->rank > 5)
        return false;
    define(f, "F_POOL", 1);
    mg_cuda_define_sizes(f, "X", x);
    mg_cuda_define_sizes(f, "Y", y);
    mg_cuda_define_each(f, "S", MG_ATTR_STRIDES, spatial, 0, 1, 1);
    mg_cuda_define_each(f, "D", MG_ATTR_DILATIONS, spatial, 0, 1, 1);
    mg_cuda_define_each(f, "P", MG_ATTR_PADS, spatial, 0, 0, 0);
    mg_cuda_define_each(f, "Q", MG_ATTR_PADS, spatial, spatial, 0, 0);
    define(f, "INCLUDE_PAD", integer(f, MG_ATTR_COUNT_INCLUDE_PAD));
    return true;
}

bool mg_cuda_write_pool(struct family *f)
{
    static const struct {
        enum mg_op_type type;
        const char *name;
    } kinds[] = {{MG_OP_MAX_POOL, "F_MAX_POOL"},
                 {MG_OP_MAX_POOL_GRAD, "F_MAX_POOL_GRAD"},
                 {MG_OP_AVG_POOL, "F_AVG_POOL"},
                 {MG_OP_AVG_POOL_GRAD, "F_AVG_POOL_GRAD"},
                 {MG_OP_LP_POOL, "F_LP_POOL"}};
    enum mg_op_type type = f->p->op.type;
    const struct mg_shape *in = &f->p->op.in_shape[0], *out = &f->p->op.out_shape[0];
    bool gradient = type == MG_OP_MAX_POOL_GRAD || type == MG_OP_AVG_POOL_GRAD;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == type)
            define(f, kinds[i].name, 1);
    if (!mg_cuda_define_windows(f, gradient ? out : in, gradient ? in : out))
        return false;
    mg_cuda_define_each(f, "W", MG_ATTR_KERNEL_SHAPE, in->rank - 2, 0, 1, 1);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    define(f, "POWER", integer(f, MG_ATTR_P));
    threads(f, mg_shape_elements(out));
    return true;
}

bool mg_cuda_write_global_pool(struct family *f)
{
    enum mg_op_type type = f->p->op.type;
    bool gradient = type == MG_OP_GLOBAL_AVG_POOL_GRAD || type == MG_OP_GLOBAL_MAX_POOL_GRAD;
    const struct mg_shape *x = gradient ? &f->p->op.out_shape[0] : &f->p->op.in_shape[0];
    int64_t planes = x->dim[0] * x->dim[1];
    define(f, gradient ? "F_GLOBAL_POOL_GRAD" : "F_GLOBAL_POOL", 1);
    define(f, "ROW_COUNT", planes);
    define(f, "EXTENT", mg_cuda_spatial_size(x));
    if (type == MG_OP_GLOBAL_MAX_POOL_GRAD || !gradient)
        define(f, "TAKES_LARGEST", type != MG_OP_GLOBAL_AVG_POOL);
    if (gradient)
        threads(f, planes);
    else
        rows(f, planes, mg_cuda_spatial_size(x));
    return true;
}

bool mg_cuda_write_adaptive(struct family *f)
{
    bool gradient = f->p->op.type == MG_OP_ADAPTIVE_AVG_POOL_GRAD;
    const struct mg_shape *in = &f->p->op.in_shape[0], *out = &f->p->op.out_shape[0];
    if (in->rank > 5)
        return false;
    define(f, "F_ADAPTIVE", 1);
    mg_cuda_define_sizes(f, "X", gradient ? out : in);
    mg_cuda_define_sizes(f, "Y", gradient ? in : out);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    if (gradient)
        define(f, "SPREADS", 1);
    threads(f, mg_shape_elements(out));
    return true;
}

/* ---- resampling: the common kinds ---- */

static bool is_common_resize(const struct mg_prepared *p)
{
    static const enum mg_attr_key rare[] = {MG_ATTR_ANTIALIAS, MG_ATTR_EXCLUDE_OUTSIDE};
    static const enum mg_attr_key scales[] = {MG_ATTR_SCALES_D, MG_ATTR_SCALES_H, MG_ATTR_SCALES_W};
    bool common = mg_prepared_text_is(p, MG_ATTR_MODE, "linear") || mg_prepared_text_is(p, MG_ATTR_MODE, "nearest");
    common = common && (mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel") ||
                        mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners") ||
                        mg_prepared_text_is(p, MG_ATTR_COORDINATES, "asymmetric"));
    for (int i = 0; i < 2; i++)
        common = common && !mg_prepared_int(p, rare[i]);
    for (int i = 0; i < 3; i++)
        common = common && mg_prepared_float(p, scales[i]) <= 0;
    return common && p->op.in_shape[0].rank <= 5;
}

bool mg_cuda_write_resize(struct family *f)
{
    static const char *const roundings[] = {"floor", "ceil", "round_prefer_floor"};
    const struct mg_prepared *p = f->p;
    bool gradient = p->op.type == MG_OP_RESIZE_GRAD;
    const struct mg_shape *in = &p->op.in_shape[0], *out = &p->op.out_shape[0];
    int64_t rounding = 3;
    if (!is_common_resize(p) || (gradient && p->op.out_dtype[0] != MG_DTYPE_F32))
        return false;
    for (int i = 0; i < 3; i++)
        rounding = mg_prepared_text_is(p, MG_ATTR_NEAREST_MODE, roundings[i]) ? i : rounding;
    define(f, "F_RESIZE", 1);
    mg_cuda_define_sizes(f, "X", gradient ? out : in);
    mg_cuda_define_sizes(f, "Y", gradient ? in : out);
    define(f, "PLANES", in->dim[0] * in->dim[1]);
    define(f, "HALF_PIXEL", mg_prepared_text_is(p, MG_ATTR_COORDINATES, "half_pixel"));
    define(f, "ALIGN_CORNERS", mg_prepared_text_is(p, MG_ATTR_COORDINATES, "align_corners"));
    define(f, "IS_LINEAR", mg_prepared_text_is(p, MG_ATTR_MODE, "linear"));
    define(f, "NEAREST", rounding);
    if (gradient)
        define(f, "SPREADS", 1);
    threads(f, mg_shape_elements(out));
    if (gradient)
        threads(f, mg_shape_elements(in));
    return true;
}

/* ---- windows as columns, norms of windows, positions of the largest ---- */

/* The windows over an image, as a shape. */
static struct mg_shape windows_of(const struct family *f, const struct mg_shape *image)
{
    struct mg_shape y = *image;
    uint32_t spatial = image->rank - 2;
    for (uint32_t d = 0; d < spatial; d++) {
        int64_t kernel = mg_prepared_ints(f->p, MG_ATTR_KERNEL_SHAPE, d, 1);
        int64_t pads =
            mg_prepared_ints(f->p, MG_ATTR_PADS, d, 0) + mg_prepared_ints(f->p, MG_ATTR_PADS, d + spatial, 0);
        int64_t reach = mg_prepared_ints(f->p, MG_ATTR_DILATIONS, d, 1) * (kernel - 1) + 1;
        y.dim[d + 2] = (image->dim[d + 2] + pads - reach) / mg_prepared_ints(f->p, MG_ATTR_STRIDES, d, 1) + 1;
    }
    return y;
}

static bool columns(struct family *f, const struct mg_shape *image, const char *name)
{
    if (image->rank < 3 || image->rank > 5)
        return false;
    struct mg_shape y = windows_of(f, image);
    if (!mg_cuda_define_windows(f, image, &y))
        return false;
    mg_cuda_define_each(f, "W", MG_ATTR_KERNEL_SHAPE, image->rank - 2, 0, 1, 1);
    return mg_cuda_everywhere(f, name);
}

bool mg_cuda_write_im2col(struct family *f)
{
    return columns(f, &f->p->op.in_shape[0], "F_IM2COL");
}

bool mg_cuda_write_col2im(struct family *f)
{
    return columns(f, &f->p->op.out_shape[0], "F_COL2IM");
}

static bool over_windows(struct family *f, const struct mg_shape *x, const struct mg_shape *y, const char *name)
{
    if (!mg_cuda_define_windows(f, x, y))
        return false;
    define(f, name, 1);
    mg_cuda_define_each(f, "W", MG_ATTR_KERNEL_SHAPE, x->rank - 2, 0, 1, 1);
    define(f, "PLANES", x->dim[0] * x->dim[1]);
    threads(f, mg_shape_elements(&f->p->op.out_shape[0]));
    return true;
}

bool mg_cuda_write_lp_pool_grad(struct family *f)
{
    define(f, "POWER", integer(f, MG_ATTR_P));
    return over_windows(f, &f->p->op.in_shape[1], &f->p->op.in_shape[0], "F_LP_POOL_GRAD");
}

bool mg_cuda_write_max_pool_indices(struct family *f)
{
    define(f, "BY_COLUMNS", integer(f, MG_ATTR_STORAGE_ORDER));
    return over_windows(f, &f->p->op.in_shape[0], &f->p->op.out_shape[0], "F_MAX_POOL_INDICES");
}
