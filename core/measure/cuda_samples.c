/* Families of kernels: images read between their elements, at given places or in boxes. */
#include "measure/cuda_family.h"

bool mg_cuda_write_grid_sample(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0];
    int64_t padding = mg_prepared_text_is(f->p, MG_ATTR_PADDING, "border")  ? 1
                      : mg_prepared_text_is(f->p, MG_ATTR_PADDING, "zeros") ? 0
                                                                            : 2;
    int64_t taps = mg_prepared_text_is(f->p, MG_ATTR_MODE, "nearest") ? 1
                   : mg_prepared_text_is(f->p, MG_ATTR_MODE, "cubic") ? 4
                                                                      : 2;
    if (x->rank < 3 || x->rank > 5)
        return false;
    mg_cuda_define_sizes(f, "X", x);
    mg_cuda_define_sizes(f, "Y", &f->p->op.out_shape[0]);
    define(f, "CHANNELS", x->dim[1]);
    define(f, "RANK", x->rank - 2);
    define(f, "PADDING", padding);
    define(f, "TAPS", taps);
    define(f, "CORNERS", integer(f, MG_ATTR_ALIGN_CORNERS));
    return mg_cuda_everywhere(f, "F_GRID_SAMPLE");
}

bool mg_cuda_write_roi_align(struct family *f)
{
    const struct mg_shape *x = &f->p->op.in_shape[0], *y = &f->p->op.out_shape[0];
    define(f, "SAMPLES", x->dim[0]);
    define(f, "CHANNELS", x->dim[1]);
    define(f, "HEIGHT", x->dim[2]);
    define(f, "WIDTH", x->dim[3]);
    define(f, "BINS_H", y->dim[2]);
    define(f, "BINS_W", y->dim[3]);
    define(f, "POINTS", integer(f, MG_ATTR_SAMPLING_RATIO));
    define(f, "HALF_PIXEL", mg_prepared_text_is(f->p, MG_ATTR_COORDINATES, "half_pixel"));
    define(f, "TAKES_LARGEST", mg_prepared_text_is(f->p, MG_ATTR_MODE, "max"));
    define_real(f, "BOX_SCALE", mg_prepared_float(f->p, MG_ATTR_SPATIAL_SCALE));
    return mg_cuda_everywhere(f, "F_ROI_ALIGN");
}
