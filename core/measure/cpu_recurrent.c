/* Recurrent layers: the inputs of all steps in one product of matrices, then step by step the product of the states and
 * what the gates make of both. */
#include <string.h>

#include "measure/cpu_math.h"
#include "measure/cpu_priv.h"

struct layer {
    int64_t seq, n, in, h, gates;
    bool reset_last;                          /* gru: the reset gate scales the recurrent product, not the state */
    struct onednn_op *input, *state, *reset;  /* products; the last: of the state that was reset */
    uint64_t inputs, recurrent, scaled, bias; /* in the scratch */
};
struct step {
    const struct layer *l;
    const struct cpu_call *call;
    float *x;         /* what the inputs give: [n, gates h] */
    float *recurrent; /* what the state gives, as wide or 2 h of it */
    float *state, *memory;
    const float *peephole, *late; /* late: a bias that the reset gate scales */
};
typedef enum mg_code step_fn(const struct step *s);

static const float *operand(const struct cpu_call *call, uint32_t i)
{
    return i < call->p->op.in_count ? call->in[i] : NULL;
}

/* ---- one sample's gates ---- */

/* Gates i, o, f, c; peepholes for i, o, f: o sees the new memory, the others the old one. */
MG_WIDE static void lstm_row(int64_t h, const float *x, const float *r, const float *hole, float *memory, float *state)
{
    for (int64_t j = 0; j < h; j++) {
        float old = memory[j];
        float input = fast_sigmoid(x[j] + r[j] + hole[j] * old);
        float forget = fast_sigmoid(x[2 * h + j] + r[2 * h + j] + hole[2 * h + j] * old);
        float next = forget * old + input * fast_tanh(x[3 * h + j] + r[3 * h + j]);
        float output = fast_sigmoid(x[h + j] + r[h + j] + hole[h + j] * next);
        memory[j] = next;
        state[j] = output * fast_tanh(next);
    }
}

/* Gates z, r: x becomes them. */
MG_WIDE static void gates_row(int64_t n, float *x, const float *r)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = fast_sigmoid(x[j] + r[j]);
}

/* The new state between the candidate and the old one. */
MG_WIDE static void gru_row(int64_t h, const float *update, const float *candidate, float *state)
{
    for (int64_t j = 0; j < h; j++)
        state[j] = (1 - update[j]) * fast_tanh(candidate[j]) + update[j] * state[j];
}

/* x += a * (b + c), or a * b */
MG_WIDE static void add_scaled(int64_t h, float *x, const float *a, const float *b, const float *c)
{
    for (int64_t j = 0; j < h; j++)
        x[j] += a[j] * (b[j] + c[j]);
}
MG_WIDE static void multiply(int64_t h, float *x, const float *a, const float *b)
{
    for (int64_t j = 0; j < h; j++)
        x[j] = a[j] * b[j];
}
MG_WIDE static void add(int64_t h, float *x, const float *a)
{
    for (int64_t j = 0; j < h; j++)
        x[j] += a[j];
}

MG_WIDE static void rnn_row(int64_t h, bool relu, const float *x, const float *r, float *state)
{
    for (int64_t j = 0; j < h; j++) {
        float sum = x[j] + r[j];
        state[j] = relu ? (sum > 0 ? sum : 0) : fast_tanh(sum);
    }
}

/* ---- steps of all samples ---- */

static enum mg_code multiply_state(const struct step *s)
{
    return mg_cpu_dense_product_run(s->l->state, s->call, s->state, s->call->in[2], s->recurrent);
}

static enum mg_code lstm_step(const struct step *s)
{
    int64_t h = s->l->h;
    enum mg_code code = multiply_state(s);
    for (int64_t i = 0; i < s->l->n; i++)
        lstm_row(h, s->x + i * 4 * h, s->recurrent + i * 4 * h, s->peephole, s->memory + i * h, s->state + i * h);
    return code;
}

static enum mg_code rnn_step(const struct step *s)
{
    int64_t h = s->l->h;
    bool relu = mg_prepared_text_is(s->call->p, MG_ATTR_ACTIVATION, "relu");
    enum mg_code code = multiply_state(s);
    for (int64_t i = 0; i < s->l->n; i++)
        rnn_row(h, relu, s->x + i * h, s->recurrent + i * h, s->state + i * h);
    return code;
}

/* Gates z, r, h. */
static enum mg_code gru_step(const struct step *s)
{
    const struct layer *l = s->l;
    int64_t h = l->h, wide = l->reset_last ? 3 * h : 2 * h;
    float *scaled = (float *)(void *)(s->call->scratch + l->scaled);
    enum mg_code code = multiply_state(s);
    for (int64_t i = 0; i < l->n; i++) {
        float *x = s->x + i * 3 * h;
        gates_row(2 * h, x, s->recurrent + i * wide);
        if (l->reset_last)
            add_scaled(h, x + 2 * h, x + h, s->recurrent + i * wide + 2 * h, s->late);
        else
            multiply(h, scaled + i * h, x + h, s->state + i * h);
    }
    if (!l->reset_last && code == MG_OK)
        code = mg_cpu_dense_product_run(l->reset, s->call, scaled, (const float *)s->call->in[2] + 2 * h * h,
                                        s->recurrent);
    for (int64_t i = 0; i < l->n; i++) {
        float *x = s->x + i * 3 * h;
        if (!l->reset_last)
            add(h, x + 2 * h, s->recurrent + i * h);
        gru_row(h, x, x + 2 * h, s->state + i * h);
    }
    return code;
}

/* ---- a layer ---- */

/* The bias of the inputs and that of the states in one, but for what the reset gate scales. */
static void add_biases(const struct cpu_call *call, const struct layer *l, float *inputs)
{
    const float *given = operand(call, 3);
    int64_t wide = l->gates * l->h, early = l->reset_last ? 2 * l->h : wide;
    float *bias = (float *)(void *)(call->scratch + l->bias);
    if (!given)
        return;
    memcpy(bias, given, (size_t)wide * sizeof *bias);
    add(early, bias, given + wide);
    for (int64_t i = 0; i < l->seq * l->n; i++)
        add(wide, inputs + i * wide, bias);
}

static void begin(float *state, const float *given, size_t bytes)
{
    if (given)
        memcpy(state, given, bytes);
    else
        memset(state, 0, bytes);
}

/* Nothing, as long as all peepholes; after it, as long as a state. */
static const float *zeros(const struct cpu_call *call, const struct layer *l)
{
    float *nothing = (float *)(void *)(call->scratch + l->scaled) + l->n * l->h;
    memset(nothing, 0, (size_t)(3 * l->h) * sizeof *nothing);
    return nothing;
}

static enum mg_code run_layer(const struct cpu_call *call)
{
    const struct layer *l = ((const struct cpu_op *)call->p->detail)->data;
    enum mg_op_type type = call->p->op.type;
    step_fn *step = type == MG_OP_LSTM ? lstm_step : type == MG_OP_GRU ? gru_step : rnn_step;
    float *inputs = (float *)(void *)(call->scratch + l->inputs);
    struct step s = {l, call, .recurrent = (float *)(void *)(call->scratch + l->recurrent), .state = call->out[1]};
    size_t bytes = (size_t)(l->n * l->h) * sizeof(float);
    bool reverse = mg_prepared_int(call->p, MG_ATTR_REVERSE);
    s.memory = type == MG_OP_LSTM ? call->out[2] : NULL;
    s.peephole = operand(call, 6) ? operand(call, 6) : zeros(call, l);
    s.late = operand(call, 3) ? operand(call, 3) + (2 * l->gates - 1) * l->h : zeros(call, l);
    begin(s.state, operand(call, 4), bytes);
    if (s.memory)
        begin(s.memory, operand(call, 5), bytes);
    enum mg_code code = mg_cpu_dense_product_run(l->input, call, call->in[0], call->in[1], inputs);
    add_biases(call, l, inputs);
    for (int64_t i = 0; i < l->seq && code == MG_OK; i++) {
        int64_t t = reverse ? l->seq - 1 - i : i;
        s.x = inputs + t * l->n * l->gates * l->h;
        code = step(&s);
        memcpy((float *)call->out[0] + t * l->n * l->h, s.state, bytes);
    }
    return code;
}

static uint64_t reserve(struct mg_prepared *p, int64_t floats)
{
    return mg_cpu_reserve(p, (uint64_t)floats * sizeof(float));
}

enum mg_code mg_cpu_recurrent(struct mg_prepared *p, struct cpu_op *op, struct mg_error *err)
{
    struct layer *l = MG_NEW(&p->arena, struct layer);
    const struct mg_shape *x = &p->op.in_shape[0];
    *l = (struct layer){.seq = x->dim[0], .n = x->dim[1], .in = x->dim[2], .h = p->op.out_shape[1].dim[2]};
    if (mg_cpu_native(p->op.in_dtype[0]) != MG_DTYPE_F32 || mg_shape_elements(x) == 0)
        return mg_cpu_by_reference(p, op, err);
    l->gates = p->op.type == MG_OP_LSTM ? 4 : p->op.type == MG_OP_GRU ? 3 : 1;
    l->reset_last = mg_prepared_int(p, MG_ATTR_LINEAR_BEFORE_RESET);
    bool resets = p->op.type == MG_OP_GRU && !l->reset_last;
    int64_t wide = l->gates * l->h, states = resets ? 2 * l->h : wide;
    l->inputs = reserve(p, l->seq * l->n * wide);
    l->recurrent = reserve(p, l->n * wide);
    l->scaled = reserve(p, (l->n + 3) * l->h);
    l->bias = reserve(p, wide);
    op->data = l;
    op->run = run_layer;
    struct cpu_product input = {1, l->seq * l->n, wide, l->in, false, true},
                       state = {1, l->n, states, l->h, false, true};
    struct cpu_product reset = {1, l->n, l->h, l->h, false, true};
    enum mg_code code = mg_cpu_dense_product(p, op, &input, &l->input, err);
    code = code ? code : mg_cpu_dense_product(p, op, &state, &l->state, err);
    return code || !resets ? code : mg_cpu_dense_product(p, op, &reset, &l->reset, err);
}
