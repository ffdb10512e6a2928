/* Recurrent layers, step by step. */
#include <math.h>
#include <string.h>

#include "exec/kernels.h"

struct cell {
    int64_t seq, n, in, h, gates;
    double *state, *memory, *gate; /* [n, h], [n, h], [gates h] */
    const double *x, *w, *r, *b, *peephole;
    bool reset_last; /* gru: the reset gate scales the recurrent product, not the state */
    bool relu;       /* rnn */
};

static void cell_init(struct cell *c, const struct mg_kernel *k, int64_t gates)
{
    const struct mg_shape *x = &k->op->in_shape[0];
    *c = (struct cell){.seq = x->dim[0], .n = x->dim[1], .in = x->dim[2], .gates = gates};
    c->h = k->op->out_shape[1].dim[2];
    c->state = MG_NEW_ARRAY(k->scratch, double, c->n * c->h);
    c->memory = MG_NEW_ARRAY(k->scratch, double, c->n * c->h);
    c->gate = MG_NEW_ARRAY(k->scratch, double, gates * c->h);
    c->x = k->in[0];
    c->w = k->in[1];
    c->r = k->in[2];
    c->b = k->op->in_count > 3 ? k->in[3] : NULL;
    c->peephole = k->op->in_count > 6 ? k->in[6] : NULL;
    c->reset_last = mg_kernel_int(k, MG_ATTR_LINEAR_BEFORE_RESET) != 0;
    c->relu = strcmp(mg_kernel_text(k, MG_ATTR_ACTIVATION), "relu") == 0;
    size_t size = (size_t)(c->n * c->h) * sizeof(double);
    if (k->op->in_count > 4)
        memcpy(c->state, k->in[4], size);
    if (k->op->in_count > 5)
        memcpy(c->memory, k->in[5], size);
}

/* One gate unit's input part, with its bias, before the activation. */
static double input_sum(const struct cell *c, int64_t t, int64_t n, int64_t unit)
{
    double sum = c->b ? c->b[unit] : 0;
    for (int64_t i = 0; i < c->in; i++)
        sum += c->x[(t * c->n + n) * c->in + i] * c->w[unit * c->in + i];
    return sum;
}

/* And its recurrent part; `factor` scales the state, or is NULL. */
static double state_sum(const struct cell *c, int64_t n, int64_t unit, const double *factor)
{
    double sum = c->b ? c->b[c->gates * c->h + unit] : 0;
    for (int64_t j = 0; j < c->h; j++)
        sum += c->state[n * c->h + j] * (factor ? factor[j] : 1) * c->r[unit * c->h + j];
    return sum;
}

static double gate_sum(const struct cell *c, int64_t t, int64_t n, int64_t unit)
{
    return input_sum(c, t, n, unit) + state_sum(c, n, unit, NULL);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Gates i, o, f, c; peepholes for i, o, f: o sees the new memory, the others the old one. */
static void lstm_step(struct cell *c, int64_t t, int64_t n)
{
    for (int64_t u = 0; u < 4 * c->h; u++)
        c->gate[u] = gate_sum(c, t, n, u);
    for (int64_t j = 0; j < c->h; j++) {
        double *memory = &c->memory[n * c->h + j], *gate = c->gate + j;
        const double *hole = c->peephole ? c->peephole + j : NULL;
        double input = sigmoid(gate[0] + (hole ? hole[0] * *memory : 0));
        double forget = sigmoid(gate[2 * c->h] + (hole ? hole[2 * c->h] * *memory : 0));
        *memory = forget * *memory + input * tanh(gate[3 * c->h]);
        double output = sigmoid(gate[c->h] + (hole ? hole[c->h] * *memory : 0));
        c->state[n * c->h + j] = output * tanh(*memory);
    }
}

/* Gates z, r, h. */
static void gru_step(struct cell *c, int64_t t, int64_t n)
{
    for (int64_t u = 0; u < 2 * c->h; u++)
        c->gate[u] = sigmoid(gate_sum(c, t, n, u));
    const double *reset = c->gate + c->h;
    for (int64_t j = 0; j < c->h; j++) {
        int64_t u = 2 * c->h + j;
        double recurrent = c->reset_last ? reset[j] * state_sum(c, n, u, NULL) : state_sum(c, n, u, reset);
        c->gate[u] = tanh(input_sum(c, t, n, u) + recurrent);
    }
    for (int64_t j = 0; j < c->h; j++) {
        double update = c->gate[j], *state = &c->state[n * c->h + j];
        *state = (1 - update) * c->gate[2 * c->h + j] + update * *state;
    }
}

static void rnn_step(struct cell *c, int64_t t, int64_t n)
{
    for (int64_t u = 0; u < c->h; u++) {
        double sum = gate_sum(c, t, n, u);
        c->gate[u] = c->relu ? fmax(sum, 0) : tanh(sum);
    }
    memcpy(c->state + n * c->h, c->gate, (size_t)c->h * sizeof(double));
}

static void recur(const struct mg_kernel *k, struct cell *c, void (*step)(struct cell *c, int64_t t, int64_t n))
{
    size_t size = (size_t)(c->n * c->h) * sizeof(double);
    for (int64_t i = 0; i < c->seq; i++) {
        int64_t t = mg_kernel_int(k, MG_ATTR_REVERSE) ? c->seq - 1 - i : i;
        for (int64_t n = 0; n < c->n; n++)
            step(c, t, n);
        memcpy(k->out[0] + t * c->n * c->h, c->state, size);
    }
    memcpy(k->out[1], c->state, size);
    if (k->op->out_count > 2)
        memcpy(k->out[2], c->memory, size);
}

enum mg_code kernel_lstm(const struct mg_kernel *k)
{
    struct cell c;
    cell_init(&c, k, 4);
    recur(k, &c, lstm_step);
    return MG_OK;
}

enum mg_code kernel_gru(const struct mg_kernel *k)
{
    struct cell c;
    cell_init(&c, k, 3);
    recur(k, &c, gru_step);
    return MG_OK;
}

enum mg_code kernel_rnn(const struct mg_kernel *k)
{
    struct cell c;
    cell_init(&c, k, 1);
    recur(k, &c, rnn_step);
    return MG_OK;
}
