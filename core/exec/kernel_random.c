/* Random numbers: reproducible, and the same in whatever parts an operator is run. */
#include <math.h>

#include "base/digest.h"
#include "exec/kernels.h"

/* Uniform in [0, 1), by seeds, operator and position in the unsplit result (R8); `turn` numbers the draws of one
 * element. */
static double draw(const struct mg_kernel *k, const int64_t *index, uint64_t turn)
{
    int64_t at = 0;
    const struct mg_exec_origin *origin = k->origin;
    for (uint32_t d = 0; d < k->op->out_shape[0].rank; d++) {
        int64_t extent = origin->whole.rank ? origin->whole.dim[d] : k->op->out_shape[0].dim[d];
        at = at * extent + index[d] + origin->lo[d];
    }
    uint64_t words[4] = {origin->seed, (uint64_t)mg_kernel_int(k, MG_ATTR_SEED) ^ turn << 32, origin->op, (uint64_t)at};
    return (double)(mg_hash_words(words, 4).lo >> 11) * 0x1p-53;
}

enum mg_code kernel_dropout(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    double ratio = mg_kernel_float(k, MG_ATTR_RATIO);
    int64_t index[MG_MAX_RANK] = {0}, count = mg_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        bool keep = draw(k, index, 0) >= ratio;
        k->out[0][i] = keep ? k->in[0][i] / (1 - ratio) : 0;
        k->out[1][i] = keep;
        mg_walk_next(shape, index);
    }
    return MG_OK;
}

/* By Box and Muller's transform of two uniform draws. */
static double normal(const struct mg_kernel *k, const int64_t *index)
{
    static const double two_pi = 6.28318530717958647693;
    double radius = sqrt(-2 * log(1 - draw(k, index, 0)));
    double value = radius * cos(two_pi * draw(k, index, 1));
    return mg_kernel_float(k, MG_ATTR_MEAN) + mg_kernel_float(k, MG_ATTR_SCALE) * value;
}

static double random_number(const struct mg_kernel *k, const int64_t *index, int64_t at)
{
    double low = mg_kernel_float(k, MG_ATTR_LOW), high = mg_kernel_float(k, MG_ATTR_HIGH);
    switch (k->op->type) {
    case MG_OP_RANDOM_NORMAL:
        return normal(k, index);
    case MG_OP_RANDOM_UNIFORM:
        return low + (high - low) * draw(k, index, 0);
    default: /* bernoulli */
        return draw(k, index, 0) < k->in[0][at];
    }
}

enum mg_code kernel_random(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0};
    for (int64_t i = 0; i < mg_shape_elements(shape); i++, mg_walk_next(shape, index))
        k->out[0][i] = random_number(k, index, i);
    return MG_OK;
}

/* The class at which the running sum of probabilities passes a uniform draw. */
static int64_t choose(const double *logits, int64_t classes, double uniform)
{
    double largest = -INFINITY, total = 0, sum = 0;
    for (int64_t c = 0; c < classes; c++)
        largest = fmax(largest, logits[c]);
    for (int64_t c = 0; c < classes; c++)
        total += exp(logits[c] - largest);
    for (int64_t c = 0; c < classes; c++) {
        sum += exp(logits[c] - largest) / total;
        if (uniform < sum)
            return c;
    }
    return classes - 1;
}

enum mg_code kernel_multinomial(const struct mg_kernel *k)
{
    const struct mg_shape *shape = &k->op->out_shape[0];
    int64_t index[MG_MAX_RANK] = {0}, classes = k->op->in_shape[0].dim[1];
    for (int64_t i = 0; i < mg_shape_elements(shape); i++, mg_walk_next(shape, index))
        k->out[0][i] = (double)choose(k->in[0] + index[0] * classes, classes, draw(k, index, 0));
    return MG_OK;
}
