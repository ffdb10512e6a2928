/* Dropout, with the reference executor's numbers: drawn by seed, operator and position in the unsplit result. */
#include <string.h>

#include "base/digest.h"
#include "measure/cpu_priv.h"

/* Position in the whole result of a part's element. */
static int64_t position(const struct cpu_call *call, const int64_t *index)
{
    const struct mg_shape *shape = &call->p->op.out_shape[0];
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        int64_t extent = call->origin->whole.rank ? call->origin->whole.dim[d] : shape->dim[d];
        at = at * extent + index[d] + call->origin->lo[d];
    }
    return at;
}

static enum mg_code run_dropout(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0];
    double ratio = mg_prepared_float(p, MG_ATTR_RATIO);
    float scale = (float)(1 / (1 - ratio)), *y = call->out[0];
    const float *x = call->in[0];
    uint8_t *mask = call->out[1];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    uint64_t words[4] = {call->origin->seed, (uint64_t)mg_prepared_int(p, MG_ATTR_SEED), call->origin->op, 0};
    for (int64_t i = 0; i < count; i++) {
        words[3] = (uint64_t)position(call, index);
        bool keep = (double)(mg_hash_words(words, 4).lo >> 11) * 0x1p-53 >= ratio;
        y[i] = keep ? x[i] * scale : 0;
        mask[i] = keep;
        for (uint32_t d = shape->rank; d-- > 0 && ++index[d] == shape->dim[d];)
            index[d] = 0;
    }
    return MG_OK;
}

enum mg_code mg_cpu_dropout(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->run = run_dropout;
    return MG_OK;
}
