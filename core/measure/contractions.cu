/* More kernels for devices, after kernels.cu: sums of products that no library is asked for, quantized numbers, sampling,
 * writing by index. Rn(i): element i of result n as it stands. */

/* ---- sums of products by equation: TERM(o, r) is the product for result o and summed index r ---- */
#ifdef F_EINSUM
KERNEL(k0)
{
    EACH(o, COUNT) {
        num sum = 0;
        for (long long r = 0; r < EXTENT; r++)
            sum += TERM(o, r);
        OUT0(o, sum);
    }
}
#endif

/* ---- attention: rows are the queries of all heads; A_Q, A_K, A_V: its operands; score_at(head, i, j) ---- */
#ifdef F_ATTENTION
__device__ num score_at(PARAMS, long long head, long long i, long long j)
{
    num sum = 0;
    if (CAUSAL && j > i)
        return -INF;
    for (long long d = 0; d < DIM; d++)
        sum += A_Q((head * QUERIES + i) * DIM + d) * A_K((head / SHARED * KEYS + j) * DIM + d);
    return (num)SCALE * sum + MASK((head * QUERIES + i) * KEYS + j);
}
#endif
#ifdef F_ATTENTION_FORWARD
KERNEL(k0)
{
    EACH(r, HEADS * QUERIES) {
        const long long head = r / QUERIES, i = r % QUERIES;
        num top = -INF, sum = 0;
        for (long long j = 0; j < KEYS; j++)
            top = larger(top, score_at(ARGUMENTS, head, i, j));
        for (long long j = 0; j < KEYS; j++)
            sum += EXP(score_at(ARGUMENTS, head, i, j) - top);
        OUT1(r, top + LOG(sum));
        for (long long d = 0; d < VALUE_DIM; d++) {
            num y = 0;
            for (long long j = 0; j < KEYS; j++)
                y += EXP(score_at(ARGUMENTS, head, i, j) - top) / sum * A_V((head / SHARED * KEYS + j) * VALUE_DIM + d);
            OUT0(r * VALUE_DIM + d, y);
        }
    }
}
#endif
#ifdef F_ATTENTION_BACKWARD
/* p and ds = p (dy v - dy y) scale of one score. */
__device__ num chance_at(PARAMS, long long r, long long j, num *ds)
{
    const long long head = r / QUERIES, key = head / SHARED * KEYS + j;
    const num p = EXP(score_at(ARGUMENTS, head, r % QUERIES, j) - IN5(r));
    num dp = 0, dot = 0;
    for (long long d = 0; d < VALUE_DIM; d++) {
        const num dy = IN0(r * VALUE_DIM + d);
        dp += dy * A_V(key * VALUE_DIM + d);
        dot += dy * IN4(r * VALUE_DIM + d);
    }
    *ds = p * (dp - dot) * (num)SCALE;
    return p;
}
KERNEL(k0)
{
    EACH(o, HEADS * QUERIES * DIM) {
        const long long r = o / DIM;
        num sum = 0, ds;
        for (long long j = 0; j < KEYS; j++) {
            chance_at(ARGUMENTS, r, j, &ds);
            sum += ds * A_K((r / QUERIES / SHARED * KEYS + j) * DIM + o % DIM);
        }
        OUT0(o, sum);
    }
}
/* Query heads and queries that see key (head, j). */
#define EACH_ROW_OF_KEY(r, key)                                                                                        \
    for (long long r = (key) / KEYS * SHARED * QUERIES; r < ((key) / KEYS + 1) * SHARED * QUERIES; r++)
KERNEL(k1)
{
    EACH(o, HEADS / SHARED * KEYS * DIM) {
        const long long key = o / DIM;
        num sum = 0, ds;
        EACH_ROW_OF_KEY(r, key) {
            chance_at(ARGUMENTS, r, key % KEYS, &ds);
            sum += ds * A_Q(r * DIM + o % DIM);
        }
        OUT1(o, sum);
    }
}
KERNEL(k2)
{
    EACH(o, HEADS / SHARED * KEYS * VALUE_DIM) {
        const long long key = o / VALUE_DIM;
        num sum = 0, ds;
        EACH_ROW_OF_KEY(r, key)
            sum += chance_at(ARGUMENTS, r, key % KEYS, &ds) * IN0(r * VALUE_DIM + o % VALUE_DIM);
        OUT2(o, sum);
    }
}
#endif

/* ---- recurrent layers: a block for each sample, a thread for each unit; UNITS of state, GATES a unit ---- */
#ifdef F_RECURRENT
__device__ num sigmoid_of(num x) { return 1 / (1 + EXP(-x)); }
__device__ num input_of(PARAMS, long long t, long long n, long long gate)
{
    num sum = BIAS(gate);
    for (long long i = 0; i < INPUTS; i++)
        sum += IN0((t * SAMPLES + n) * INPUTS + i) * IN1(gate * INPUTS + i);
    return sum;
}
/* Between steps the state is not rounded to the operands' dtype: later steps would multiply the error. */
__shared__ num state[UNITS], fresh[UNITS];
#ifdef IS_LSTM
__shared__ num memory[UNITS];
#endif
#ifdef IS_GRU
__shared__ num resetting[UNITS];
#endif
/* Of all units' states, in what the row of IN2 makes of them. */
__device__ num state_of(PARAMS, long long row)
{
    num sum = BIAS(GATES * UNITS + row);
    for (long long j = 0; j < UNITS; j++)
        sum += state[j] * IN2(row * UNITS + j);
    return sum;
}
__device__ num gate_of(PARAMS, long long t, long long n, long long gate)
{
    return input_of(ARGUMENTS, t, n, gate) + state_of(ARGUMENTS, gate);
}
KERNEL(k0)
{
    EACH_ROW(n, SAMPLES) {
        OVER(u, UNITS) {
            state[u] = START_STATE(n * UNITS + u);
#ifdef IS_LSTM
            memory[u] = START_MEMORY(n * UNITS + u);
#endif
        }
        __syncthreads();
        for (long long s = 0; s < STEPS; s++) {
            const long long t = REVERSE ? STEPS - 1 - s : s;
#ifdef IS_LSTM
            OVER(u, UNITS) {
                const num input = sigmoid_of(gate_of(ARGUMENTS, t, n, u) + HOLE(u) * memory[u]);
                const num forget = sigmoid_of(gate_of(ARGUMENTS, t, n, 2 * UNITS + u) + HOLE(2 * UNITS + u) * memory[u]);
                memory[u] = forget * memory[u] + input * TANH(gate_of(ARGUMENTS, t, n, 3 * UNITS + u));
                const num output = sigmoid_of(gate_of(ARGUMENTS, t, n, UNITS + u) + HOLE(UNITS + u) * memory[u]);
                fresh[u] = output * TANH(memory[u]);
            }
#endif
#ifdef IS_GRU
            OVER(u, UNITS) {
                fresh[u] = sigmoid_of(gate_of(ARGUMENTS, t, n, u)); /* how much of the state is kept */
                resetting[u] = sigmoid_of(gate_of(ARGUMENTS, t, n, UNITS + u));
            }
            __syncthreads();
            OVER(u, UNITS) {
                num sum = BIAS(5 * UNITS + u);
                for (long long j = 0; j < UNITS; j++)
                    sum += state[j] * (RESETS_LAST ? (num)1 : resetting[j]) * IN2((2 * UNITS + u) * UNITS + j);
                sum = TANH(input_of(ARGUMENTS, t, n, 2 * UNITS + u) + (RESETS_LAST ? resetting[u] : (num)1) * sum);
                fresh[u] = (1 - fresh[u]) * sum + fresh[u] * state[u];
            }
#endif
#ifdef IS_RNN
            OVER(u, UNITS) {
                const num sum = gate_of(ARGUMENTS, t, n, u);
                fresh[u] = IS_RELU ? larger(sum, 0) : TANH(sum);
            }
#endif
            __syncthreads();
            OVER(u, UNITS) {
                state[u] = fresh[u];
                OUT0((t * SAMPLES + n) * UNITS + u, fresh[u]);
            }
            __syncthreads();
        }
        OVER(u, UNITS) {
            OUT1(n * UNITS + u, state[u]);
#ifdef IS_LSTM
            OUT2(n * UNITS + u, memory[u]);
#endif
        }
    }
}
#endif

/* ---- quantized numbers: saturated to LEAST ... MOST ---- */
#ifdef F_QUANTIZED
__device__ double saturated(double x) { return nearbyint(x) < LEAST ? LEAST : nearbyint(x) > MOST ? MOST : nearbyint(x); }
#endif
#ifdef F_QUANTIZE
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, saturated(nearbyint((double)IN0(o) / (double)BY_AXIS1(o)) + (double)BY_AXIS2(o)));
}
#endif
#ifdef F_DEQUANTIZE
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, (IN0(o) - BY_AXIS2(o)) * BY_AXIS1(o));
}
#endif
#ifdef F_DYNAMIC_QUANTIZE
KERNEL(k0)
{
    EACH_ROW(r, 1) {
        num least = 0, most = 0;
        OVER(i, COUNT) {
            least = larger(least, -IN0(i));
            most = larger(most, IN0(i));
        }
        least = -LARGEST_OF(least);
        most = LARGEST_OF(most);
        const double span = (double)most - least, scale = span > 0 ? span / 255 : 1;
        if (FIRST) {
            OUT1(0, scale);
            OUT2(0, saturated(-least / scale));
        }
    }
}
KERNEL(k1)
{
    EACH(o, COUNT)
        OUT0(o, saturated(nearbyint((double)IN0(o) / (double)R1(0)) + (double)R2(0)));
}
#endif
#ifdef F_QUANTIZED_PRODUCT
__device__ void put_sum(PARAMS, long long o, long long sum, long long row, long long column)
{
#ifdef ROUNDS
    const double scale = (double)SCALE_A(row) * (double)SCALE_B(column) / (double)IN6(0);
    OUT0(o, saturated(nearbyint((double)(sum + ADDED(column)) * scale) + (double)IN7(0)));
#else
    o0[at_o0(o)] = (int)sum;
#endif
}
#endif
#ifdef F_QUANTIZED_MATMUL
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long row = o / N % M, column = o % N, a = batch_a(o / N / M) * M * K, b = batch_b(o / N / M) * K * N;
        long long sum = 0;
        for (long long k = 0; k < K; k++)
            sum += (IX0(a + row * K + k) - ZERO_A(row)) *
                   (Q_B(b + k * N + column) - ZERO_B(column));
        put_sum(ARGUMENTS, o, sum, row, column);
    }
}
#endif
#ifdef F_QUANTIZED_CONV
KERNEL(k0)
{
    EACH(o, SAMPLES * GROUP * PER_Y * PLANE_Y) {
        const long long f = o / PLANE_Y % (GROUP * PER_Y), n = o / PLANE_Y / (GROUP * PER_Y);
        long long sum = 0;
        EACH_OF_WINDOW {
            const long long x = place_of(o % PLANE_Y, i, j, k);
            for (long long c = 0; c < PER_X && x >= 0; c++)
                sum += (IX0((n * GROUP * PER_X + f / PER_Y * PER_X + c) * PLANE_X + x) - ZERO_A(n)) *
                       (Q_B(((f * PER_X + c) * W0 + i) * W1 * W2 + j * W2 + k) - ZERO_B(f));
        }
        put_sum(ARGUMENTS, o, sum, 0, f);
    }
}
#endif

/* ---- windows as columns: [plane, element of the window, window] ---- */
#ifdef F_IM2COL
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long e = o / PLANE_Y % (W0 * W1 * W2);
        const long long at = place_of(o % PLANE_Y, (int)(e / (W1 * W2)), (int)(e / W2 % W1), (int)(e % W2));
        OUT0(o, at < 0 ? (num)0 : IN0(o / PLANE_Y / (W0 * W1 * W2) * PLANE_X + at));
    }
}
#endif
#ifdef F_COL2IM
KERNEL(k0)
{
    EACH(o, COUNT) {
        num sum = 0;
        EACH_OF_WINDOW {
            const long long y = output_of(o % PLANE_X, i, j, k);
            const long long e = (o / PLANE_X * W0 + i) * W1 * W2 + j * W2 + k;
            sum += y < 0 ? (num)0 : IN0(e * PLANE_Y + y);
        }
        OUT0(o, sum);
    }
}
#endif
#ifdef F_LP_POOL_GRAD
__device__ num norm_of(PARAMS, long long plane, long long y)
{
    num sum = 0;
    EACH_OF_WINDOW {
        const long long at = place_of(y, i, j, k);
        sum += at < 0 ? (num)0 : POW(FABS(IN1(plane * PLANE_X + at)), (num)POWER);
    }
    return POW(sum, 1 / (num)POWER);
}
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_X) {
        const num x = IN1(o);
        num sum = 0;
        EACH_OF_WINDOW {
            const long long y = output_of(o % PLANE_X, i, j, k);
            if (y >= 0 && x != 0) {
                const num size = POW(FABS(x) / norm_of(ARGUMENTS, o / PLANE_X, y), (num)POWER - 1);
                sum += (x < 0 ? -size : size) * IN0(o / PLANE_X * PLANE_Y + y);
            }
        }
        OUT0(o, sum);
    }
}
#endif
#ifdef F_MAX_POOL_INDICES
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_Y) {
        const long long base = o / PLANE_Y * PLANE_X;
        long long best = -1;
        EACH_OF_WINDOW {
            const long long at = place_of(o % PLANE_Y, i, j, k);
            if (at >= 0 && (best < 0 || IN0(base + at) > IN0(base + best)))
                best = at;
        }
        OUT0(o, best < 0 ? -INF : IN0(base + best));
        if (BY_COLUMNS && best >= 0)
            best = best / (X1 * X2) + X0 * (best / X2 % X1 + X1 * (best % X2));
        o1[at_o1(o)] = base + best;
    }
}
#endif

/* ---- over neighbouring channels, over listed axes ---- */
#ifdef F_LRN
#define IN_WINDOW(c, i) ((i) >= (c) - (WINDOW - 1) / 2 && (i) <= (c) + WINDOW / 2)
__device__ num scale_at(PARAMS, long long at)
{
    const long long c = at / INNER % CHANNELS;
    num sum = 0;
    for (long long i = 0; i < CHANNELS; i++) {
        const num x = IN_WINDOW(c, i) ? LRN_X(at + (i - c) * INNER) : (num)0;
        sum += x * x;
    }
    return (num)BIAS + (num)ALPHA / WINDOW * sum;
}
KERNEL(k0)
{
    EACH(o, COUNT) {
#ifdef IS_GRADIENT
        const long long own = o / INNER % CHANNELS;
        num sum = 0;
        for (long long c = 0; c < CHANNELS; c++) {
            const long long there = o + (c - own) * INNER;
            if (IN_WINDOW(c, own))
                sum += IN0(there) * IN1(there) * POW(scale_at(ARGUMENTS, there), -(num)BETA - 1);
        }
        OUT0(o, IN0(o) * POW(scale_at(ARGUMENTS, o), -(num)BETA) -
                    2 * (num)ALPHA * (num)BETA / WINDOW * IN1(o) * sum);
#else
        OUT0(o, IN0(o) * POW(scale_at(ARGUMENTS, o), -(num)BETA));
#endif
    }
}
#endif
#ifdef F_MEAN_VARIANCE
KERNEL(k0)
{
    EACH_ROW(r, ROW_COUNT) {
        const long long base = base_of(r);
        num sum = 0, square = 0;
        OVER(i, EXTENT)
            sum += IN0(base + step_of(i));
        const num mean = SUM(sum) / EXTENT;
        OVER(i, EXTENT)
            square += (IN0(base + step_of(i)) - mean) * (IN0(base + step_of(i)) - mean);
        const num deviation = SQRT(SUM(square) / EXTENT) + (num)EPSILON;
        OVER(i, EXTENT)
            OUT0(base + step_of(i), (IN0(base + step_of(i)) - mean) / deviation);
    }
}
#endif

/* ---- slices and elements by index; writing goes line by line, in the order of the indices ---- */
#ifdef F_REDUCTION
__device__ num reduced(num old, num x)
{
    return REDUCTION == 1 ? old + x : REDUCTION == 2 ? old * x
           : REDUCTION == 3 ? (old > x ? old : x) : REDUCTION == 4 ? (old < x ? old : x) : x;
}
#endif
#ifdef F_SLICES /* slice_of(i): the number of the data's slice that index tuple i means, or -1 */
__device__ long long slice_of(PARAMS, long long i)
{
    long long at = i / PER_BATCH;
    for (int c = 0; c < TUPLE; c++) {
        long long index = IX1(i * TUPLE + c);
        index += index < 0 ? size_of(c) : 0;
        if (index < 0 || index >= size_of(c))
            return -1;
        at = at * size_of(c) + index;
    }
    return at;
}
#endif
#ifdef F_GATHER_ND
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long slice = slice_of(ARGUMENTS, o / SLICE);
        OUT0(o, slice < 0 ? (num)0 : IN0(slice * SLICE + o % SLICE));
    }
}
#endif
#ifdef F_SCATTER_ND
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, IN0(o));
}
KERNEL(k1)
{
    EACH(l, BATCHES * SLICE) {
        for (long long i = l / SLICE * PER_BATCH; i < (l / SLICE + 1) * PER_BATCH; i++) {
            const long long slice = slice_of(ARGUMENTS, i), at = slice * SLICE + l % SLICE;
            if (slice >= 0)
                OUT0(at, reduced(R0(at), IN2(i * SLICE + l % SLICE)));
        }
    }
}
#endif
#ifdef F_SCATTER_ELEMENTS /* index_of(l), there_of(l): where line l begins in the indices, in the data */
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, IN0(o));
}
KERNEL(k1)
{
    EACH(l, LINES) {
        for (long long i = 0; i < PICKED; i++) {
            const long long from = index_of(l) + i * INDEX_STEP;
            long long index = IX1(from);
            index += index < 0 ? EXTENT : 0;
            const long long at = there_of(l) + index * INNER;
            if (index >= 0 && index < EXTENT)
                OUT0(at, reduced(R0(at), IN2(from)));
        }
    }
}
#endif
#ifdef F_REVERSE_SEQUENCE
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long t = o / TIME_STEP % TIMES, length = IX1(o / BATCH_STEP % BATCHES);
        OUT0(o, IN0(t < length && length <= TIMES ? o + (length - 1 - 2 * t) * TIME_STEP : o));
    }
}
#endif

/* ---- between the elements of images ---- */
#ifdef F_GRID_SAMPLE
#define PLANE_X ((long long)X0 * X1 * X2)
#define PLANE_Y ((long long)Y0 * Y1 * Y2)
/* The element that stands for index i outside of the image, or -1 for zero. */
__device__ long long padded(long long i, long long size)
{
    if (i >= 0 && i < size)
        return i;
    if (PADDING == 0)
        return -1;
    if (PADDING == 1 || size == 1)
        return i < 0 ? 0 : size - 1;
    const long long period = CORNERS ? 2 * (size - 1) : 2 * size, m = (i % period + period) % period;
    return m < size ? m : CORNERS ? period - m : period - 1 - m;
}
struct grid_taps { long long first; int count; double weight[4]; };
__device__ grid_taps taps_at(double g, long long size, bool there)
{
    const double x = CORNERS ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    grid_taps t = {0, 1, {1, 0, 0, 0}};
    if (!there)
        return t;
    if (TAPS == 1) {
        t.first = (long long)nearbyint(x);
        return t;
    }
    const double low = floor(x), a = -0.75;
    t.first = (long long)low - (TAPS == 4);
    t.count = TAPS;
    for (int i = 0; i < TAPS; i++) {
        const double d = fabs(t.first + i - x);
        t.weight[i] = TAPS == 2 ? 1 - d
                      : d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
    }
    return t;
}
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long y = o % PLANE_Y, n = o / PLANE_Y / CHANNELS, grid = (n * PLANE_Y + y) * RANK;
        grid_taps t[3];
        t[2] = taps_at(IN1(grid), X2, true);
        t[1] = taps_at(RANK > 1 ? IN1(grid + (RANK > 1)) : (num)0, X1, RANK > 1);
        t[0] = taps_at(RANK > 2 ? IN1(grid + (RANK > 2 ? 2 : 0)) : (num)0, X0, RANK > 2);
        double sum = 0;
        for (int i = 0; i < t[0].count; i++)
            for (int j = 0; j < t[1].count; j++)
                for (int k = 0; k < t[2].count; k++) {
                    const long long a = padded(t[0].first + i, X0), b = padded(t[1].first + j, X1);
                    const long long c = padded(t[2].first + k, X2);
                    if (a >= 0 && b >= 0 && c >= 0)
                        sum += t[0].weight[i] * t[1].weight[j] * t[2].weight[k] *
                               (double)IN0(o / PLANE_Y * PLANE_X + (a * X1 + b) * X2 + c);
                }
        OUT0(o, sum);
    }
}
#endif
#ifdef F_ROI_ALIGN
/* Two elements around x, and how far it is from the first. */
__device__ double around(double x, long long size, long long at[2])
{
    x = x > 0 ? x : 0;
    at[0] = (long long)x;
    at[1] = at[0] + 1;
    if (at[0] < size - 1)
        return x - (double)at[0];
    at[0] = at[1] = size - 1;
    return 0;
}
__device__ double point_of(PARAMS, long long plane, double y, double x)
{
    long long row[2], column[2];
    double best = -1e300, sum = 0;
    if (y < -1 || y > HEIGHT || x < -1 || x > WIDTH)
        return 0;
    const double down = around(y, HEIGHT, row), right = around(x, WIDTH, column);
    for (int i = 0; i < 4; i++) {
        const double weight = (i / 2 ? down : 1 - down) * (i % 2 ? right : 1 - right);
        const double part = weight * (double)IN0((plane * HEIGHT + row[i / 2]) * WIDTH + column[i % 2]);
        best = part > best ? part : best;
        sum += part;
    }
    return TAKES_LARGEST ? best : sum;
}
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long roi = o / (CHANNELS * BINS_H * BINS_W), sample = IX2(roi);
        double h = ((double)IN1(roi * 4 + 3) - (double)IN1(roi * 4 + 1)) * BOX_SCALE;
        double w = ((double)IN1(roi * 4 + 2) - (double)IN1(roi * 4)) * BOX_SCALE;
        if (!HALF_PIXEL) {
            h = h > 1 ? h : 1;
            w = w > 1 ? w : 1;
        }
        const double y = (double)IN1(roi * 4 + 1) * BOX_SCALE - (HALF_PIXEL ? 0.5 : 0), bin_h = h / BINS_H;
        const double x = (double)IN1(roi * 4) * BOX_SCALE - (HALF_PIXEL ? 0.5 : 0), bin_w = w / BINS_W;
        const long long points_h = POINTS > 0 ? POINTS : (long long)ceil(bin_h);
        const long long points_w = POINTS > 0 ? POINTS : (long long)ceil(bin_w);
        const long long count = points_h * points_w, i = o / BINS_W % BINS_H, j = o % BINS_W;
        double result = TAKES_LARGEST ? -1e300 : 0;
        for (long long p = 0; p < count && sample >= 0 && sample < SAMPLES; p++) {
            const double down = ((double)(p / points_w) + 0.5) / (double)points_h;
            const double right = ((double)(p % points_w) + 0.5) / (double)points_w;
            const double value = point_of(ARGUMENTS, sample * CHANNELS + o / (BINS_H * BINS_W) % CHANNELS,
                                          y + ((double)i + down) * bin_h, x + ((double)j + right) * bin_w);
            result = TAKES_LARGEST ? (value > result ? value : result) : result + value / (double)count;
        }
        OUT0(o, result < -1e299 ? 0 : result);
    }
}
#endif

/* ---- determinants: elimination with the largest pivot of each column ---- */
#ifdef F_DET
KERNEL(k0)
{
    EACH(o, COUNT) {
        double m[SIZE * SIZE], det = 1;
        for (long long i = 0; i < SIZE * SIZE; i++)
            m[i] = (double)IN0(o * SIZE * SIZE + i);
        for (long long c = 0; c < SIZE && det != 0; c++) {
            long long pivot = c;
            for (long long r = c + 1; r < SIZE; r++)
                pivot = fabs(m[r * SIZE + c]) > fabs(m[pivot * SIZE + c]) ? r : pivot;
            for (long long j = 0; j < SIZE && pivot != c; j++) {
                const double other = m[pivot * SIZE + j];
                m[pivot * SIZE + j] = m[c * SIZE + j];
                m[c * SIZE + j] = -other;
            }
            det *= m[c * SIZE + c];
            for (long long r = c + 1; r < SIZE && det != 0; r++) {
                const double factor = m[r * SIZE + c] / m[c * SIZE + c];
                for (long long j = c; j < SIZE; j++)
                    m[r * SIZE + j] -= factor * m[c * SIZE + j];
            }
        }
        OUT0(o, det);
    }
}
#endif
