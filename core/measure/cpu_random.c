/* Random numbers, those of the reference executor: drawn by seed, operator and position in the unsplit result. */
#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "measure/convert.h"
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

/* Uniform in [0, 1); `turn` numbers the draws of one element. */
struct source {
    uint64_t words[4];
};

static struct source source_of(const struct cpu_call *call)
{
    return (struct source){{call->origin->seed, (uint64_t)mg_prepared_int(call->p, MG_ATTR_SEED), call->origin->op, 0}};
}

static double draw(const struct source *source, int64_t at, uint64_t turn)
{
    uint64_t words[4] = {source->words[0], source->words[1] ^ turn << 32, source->words[2], (uint64_t)at};
    return (double)(mg_hash_words(words, 4).lo >> 11) * 0x1p-53;
}

static void step(const struct mg_shape *shape, int64_t *index)
{
    for (uint32_t d = shape->rank; d-- > 0 && ++index[d] == shape->dim[d];)
        index[d] = 0;
}

static enum mg_code run_dropout(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0];
    struct source source = source_of(call);
    double ratio = mg_prepared_float(p, MG_ATTR_RATIO);
    float scale = (float)(1 / (1 - ratio)), *y = call->out[0];
    const float *x = call->in[0];
    uint8_t *mask = call->out[1];
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++, step(shape, index)) {
        bool keep = draw(&source, position(call, index), 0) >= ratio;
        y[i] = keep ? x[i] * scale : 0;
        mask[i] = keep;
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

/* ---- numbers of a distribution ---- */

/* Two uniform draws by Box and Muller's transform. */
static double normal(const struct source *source, int64_t at)
{
    static const double two_pi = 6.28318530717958647693;
    return sqrt(-2 * log(1 - draw(source, at, 0))) * cos(two_pi * draw(source, at, 1));
}

static enum mg_code run_random(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0];
    enum mg_dtype native = mg_cpu_native(p->op.out_dtype[0]);
    struct source source = source_of(call);
    double low = mg_prepared_float(p, MG_ATTR_LOW), high = mg_prepared_float(p, MG_ATTR_HIGH);
    double mean = mg_prepared_float(p, MG_ATTR_MEAN), scale = mg_prepared_float(p, MG_ATTR_SCALE);
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++, step(shape, index)) {
        int64_t at = position(call, index);
        double x;
        if (p->op.type == MG_OP_RANDOM_NORMAL)
            x = mean + scale * normal(&source, at);
        else if (p->op.type == MG_OP_RANDOM_UNIFORM)
            x = low + (high - low) * draw(&source, at, 0);
        else
            x = draw(&source, at, 0) < mg_convert_load(call->in[0], mg_cpu_native(p->op.in_dtype[0]), i);
        mg_convert_save(call->out[0], native, i, x);
    }
    return MG_OK;
}

enum mg_code mg_cpu_random(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    (void)p;
    (void)err;
    op->run = run_random;
    return MG_OK;
}

/* ---- choices: the class at which the running sum of chances passes a draw ---- */

static void add_chances(const float *logits, int64_t classes, double *sums)
{
    double largest = -INFINITY, total = 0, sum = 0;
    for (int64_t c = 0; c < classes; c++)
        largest = fmax(largest, (double)logits[c]);
    for (int64_t c = 0; c < classes; c++) {
        sums[c] = exp((double)logits[c] - largest);
        total += sums[c];
    }
    for (int64_t c = 0; c < classes; c++) {
        sum += sums[c] / total;
        sums[c] = sum;
    }
}

static int64_t choose(const double *sums, int64_t classes, double uniform)
{
    int64_t first = 0, last = classes - 1;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (uniform < sums[middle])
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

static enum mg_code run_multinomial(const struct cpu_call *call)
{
    const struct mg_prepared *p = call->p;
    const struct mg_shape *shape = &p->op.out_shape[0];
    enum mg_dtype native = mg_cpu_native(p->op.out_dtype[0]);
    struct source source = source_of(call);
    double *sums = (double *)(void *)call->scratch;
    int64_t index[MG_MAX_RANK] = {0}, classes = p->op.in_shape[0].dim[1];
    for (int64_t i = 0; i < mg_shape_elements(shape); i++, step(shape, index)) {
        if (index[1] == 0)
            add_chances((const float *)call->in[0] + index[0] * classes, classes, sums);
        mg_convert_save(call->out[0], native, i,
                        (double)choose(sums, classes, draw(&source, position(call, index), 0)));
    }
    return MG_OK;
}

enum mg_code mg_cpu_multinomial(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    int64_t classes = p->op.in_shape[0].dim[1];
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32 || classes == 0)
        return mg_cpu_by_reference(p, op, err);
    (void)mg_cpu_reserve(p, (uint64_t)classes * sizeof(double)); /* the first of the scratch */
    op->run = run_multinomial;
    return MG_OK;
}
