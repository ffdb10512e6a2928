/* Kernels for devices, by family; compiled at run time with the constants of one operator in front (cuda_families.c):
 * PARAMS, the kernels' parameters; num, the type that is computed in; INk(i), IXk(i), OUTk(i, x): element i in row-major
 * order of operand or result k, whatever its strides. A row is worked on by one thread (BY_THREAD) or one block; what
 * is not a row, by a thread for each element. Written so that a C++ compiler for processors can run it too: blocks of
 * any size, no warps. */
#define KERNEL(name) extern "C" __global__ void name(PARAMS)
#define EACH(i, n)                                                                                                     \
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); i += (long long)gridDim.x * blockDim.x)
#ifdef BY_THREAD
#define EACH_ROW(r, n) EACH(r, n)
#define LANE 0
#define LANES 1
#define FIRST true
#define SUM(x) (x)
#define LARGEST_OF(x) (x)
#else
#define EACH_ROW(r, n) for (long long r = blockIdx.x; r < (n); r += gridDim.x)
#define LANE threadIdx.x
#define LANES blockDim.x
#define FIRST (threadIdx.x == 0)
#define SUM(x) block_fold(x, add)
#define LARGEST_OF(x) block_fold(x, larger)
#endif
#define OVER(i, n) for (long long i = LANE; i < (n); i += LANES)

__device__ num add(num a, num b) { return a + b; }
__device__ num larger(num a, num b) { return a > b ? a : b; }

#ifndef BY_THREAD
template <class FOLDING> __device__ num block_fold(num x, FOLDING f)
{
    __shared__ num part[BLOCK];
    part[threadIdx.x] = x;
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        if (threadIdx.x % (2 * s) == 0 && threadIdx.x + s < blockDim.x)
            part[threadIdx.x] = f(part[threadIdx.x], part[threadIdx.x + s]);
        __syncthreads();
    }
    num all = part[0];
    __syncthreads();
    return all;
}
#endif

/* ---- reductions: base_of(o), step_of(r): where in memory the operand's elements lie ---- */
#ifdef F_REDUCE
__device__ num fold(num s, num x) { return FOLD; }
__device__ num join(num s, num x) { return JOIN; }
#ifdef BY_THREAD
#define JOINED(s) (s)
#else
#define JOINED(s) block_fold(s, join)
#endif
KERNEL(k0)
{
    EACH_ROW(o, ROW_COUNT) {
        const long long base = base_of(o);
        num s = START, shift = 0;
#ifdef BY_EXPONENTIALS
        num top = -INF;
        OVER(r, EXTENT)
            top = larger(top, (num)get(a0[base + step_of(r)]));
        top = LARGEST_OF(top);
        shift = FABS(top) > LARGEST ? (num)0 : top;
#endif
        OVER(r, EXTENT)
            s = fold(s, (num)get(a0[base + step_of(r)]) - shift);
        s = JOINED(s);
        if (FIRST)
            OUT0(o, END + shift);
    }
}
#endif

/* ---- rows along one axis: outer x EXTENT x INNER ---- */
#define ROW_BEGIN(r) ((r) / INNER * EXTENT * INNER + (r) % INNER)
#define AT(i) (begin + (i) * INNER)

#ifdef F_SOFTMAX
KERNEL(k0)
{
    EACH_ROW(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r);
        num top = -INF, sum = 0;
        OVER(i, EXTENT)
            top = larger(top, IN0(AT(i)));
        top = LARGEST_OF(top);
        OVER(i, EXTENT)
            sum += EXP(IN0(AT(i)) - top);
        sum = SUM(sum);
        OVER(i, EXTENT) {
            num x = IN0(AT(i)) - top;
            OUT0(AT(i), IS_LOG ? x - LOG(sum) : EXP(x) / sum);
        }
    }
}
#endif

#ifdef F_SOFTMAX_GRAD
KERNEL(k0)
{
    EACH_ROW(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r);
        num sum = 0;
        OVER(i, EXTENT)
            sum += IS_LOG ? IN0(AT(i)) : IN0(AT(i)) * IN1(AT(i));
        sum = SUM(sum);
        OVER(i, EXTENT) {
            num dy = IN0(AT(i)), y = IN1(AT(i));
            OUT0(AT(i), IS_LOG ? dy - EXP(y) * sum : y * (dy - sum));
        }
    }
}
#endif

#ifdef F_CUMSUM
KERNEL(k0)
{
    EACH(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r);
        num sum = 0;
        for (long long i = 0; i < EXTENT; i++) {
            const long long at = AT(REVERSE ? EXTENT - 1 - i : i);
            num x = IN0(at);
            OUT0(at, EXCLUSIVE ? sum : sum + x);
            sum += x;
        }
    }
}
#endif

#ifdef F_ARG_MAX
__device__ bool better(num x, num y) { return x == y ? LAST : LEAST ? x < y : x > y; }
KERNEL(k0)
{
    EACH(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r);
        long long best = 0;
        for (long long i = 1; i < EXTENT; i++)
            best = better(IN0(AT(i)), IN0(AT(best))) ? i : best;
#ifdef HARD
        for (long long i = 0; i < EXTENT; i++)
            OUT0(AT(i), i == best ? 1 : 0);
#else
        OUT0(r, best);
#endif
    }
}
#endif

/* The next in order of size after the last one; of equals the first comes first. */
#ifdef F_TOP_K
__device__ bool before(num x, long long i, num y, long long j) { return x == y ? i < j : LEAST ? x < y : x > y; }
KERNEL(k0)
{
    EACH(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r), to = r / INNER * TAKEN * INNER + r % INNER;
        long long last = -1;
        for (long long n = 0; n < TAKEN; n++) {
            long long best = -1;
            for (long long i = 0; i < EXTENT; i++)
                if ((last < 0 || before(IN0(AT(last)), last, IN0(AT(i)), i)) &&
                    (best < 0 || before(IN0(AT(i)), i, IN0(AT(best)), best)))
                    best = i;
            OUT0(to + n * INNER, IN0(AT(best)));
            OUT1(to + n * INNER, best);
            last = best;
        }
    }
}
#endif

#ifdef F_LP_NORM
KERNEL(k0)
{
    EACH_ROW(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r);
        num sum = 0;
        OVER(i, EXTENT)
            sum += SQUARE ? IN0(AT(i)) * IN0(AT(i)) : FABS(IN0(AT(i)));
        sum = SUM(sum);
        sum = SQUARE ? SQRT(sum) : sum;
        OVER(i, EXTENT)
            OUT0(AT(i), sum > 0 ? IN0(AT(i)) / sum : 0);
    }
}
#endif

/* ---- losses: targets of rows; DIVISOR 0: as many as count ---- */
#ifdef F_LOSS
KERNEL(k0)
{
    EACH(i, 1)
        OUT0(i, 0);
}
KERNEL(k1)
{
    EACH_ROW(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r), target = IX1(r);
        const bool counts = target != IGNORED && target >= 0 && target < EXTENT;
        num top = -INF, sum = 0;
#ifndef GIVEN_LOG
        OVER(i, EXTENT)
            top = larger(top, IN0(AT(i)));
        top = LARGEST_OF(top);
        OVER(i, EXTENT)
            sum += EXP(IN0(AT(i)) - top);
        sum = LOG(SUM(sum));
#else
        top = 0;
#endif
        if (FIRST && counts)
            atomicAdd(o0, top - IN0(AT(target)) + sum);
    }
}
KERNEL(k2)
{
    EACH(o, 1) {
        num divisor = DIVISOR;
        for (long long r = 0; r < ROW_COUNT && DIVISOR == 0; r++)
            divisor += IX1(r) != IGNORED ? 1 : 0;
        OUT0(o, get(o0[0]) / divisor);
    }
}
#endif

#ifdef F_LOSS_GRAD
KERNEL(k0)
{
    num count = 0;
    OVER(r, DIVISOR == 0 ? ROW_COUNT : 0)
        count += IX2(r) != IGNORED ? 1 : 0;
    const num scale = IN0(0) / (DIVISOR == 0 ? SUM(count) : (num)DIVISOR);
    EACH_ROW(r, ROW_COUNT) {
        const long long begin = ROW_BEGIN(r), target = IX2(r);
        num top = -INF, sum = 0;
#ifndef GIVEN_LOG
        OVER(i, EXTENT)
            top = larger(top, IN1(AT(i)));
        top = LARGEST_OF(top);
        OVER(i, EXTENT)
            sum += EXP(IN1(AT(i)) - top);
        sum = SUM(sum);
#endif
        OVER(i, EXTENT) {
            num share = (i == target ? -scale : (num)0);
#ifndef GIVEN_LOG
            share += scale * EXP(IN1(AT(i)) - top) / sum;
#endif
            OUT0(AT(i), target == IGNORED ? (num)0 : share);
        }
    }
}
#endif

/* ---- normalisation: groups of `blocks` runs, `gap` apart (cpu_norm.c) ---- */
#ifdef F_NORM
#define NORM_AT(e) (g * NORM_STEP + (e) / RUN * NORM_GAP + (e) % RUN)
#define PARAMETER(e) (BY_PLACE ? (e) % RUN : g % CYCLE * CHANNELS + (CHANNELS > 1 ? (e) / RUN : 0))
#define GROUP_SIZE (BLOCKS * RUN)
#endif

#ifdef F_NORM_FORWARD
KERNEL(k0)
{
    EACH_ROW(g, GROUPS) {
        num sum = 0, square = 0;
#ifdef CENTRED
        OVER(e, GROUP_SIZE)
            sum += IN0(NORM_AT(e));
        sum = SUM(sum);
#endif
        const num mean = sum / GROUP_SIZE;
        OVER(e, GROUP_SIZE) {
            num x = IN0(NORM_AT(e)) - mean;
            square += x * x;
        }
        square = SUM(square);
        const num rstd = 1 / SQRT(square / GROUP_SIZE + (num)EPSILON);
        OVER(e, GROUP_SIZE)
            OUT0(NORM_AT(e), (IN0(NORM_AT(e)) - mean) * rstd * SCALE(PARAMETER(e)) + SHIFT(PARAMETER(e)));
        if (FIRST) {
#ifdef CENTRED
            OUT1(g, mean);
            OUT2(g, rstd);
#else
            OUT1(g, rstd);
#endif
        }
    }
}
#endif

#ifdef F_NORM_APPLY
KERNEL(k0)
{
    EACH(i, COUNT) {
        const long long c = i / RUN % CYCLE;
        OUT0(i, (IN0(i) - MEAN(c)) * RSTD(c) * SCALE(c) + SHIFT(c));
    }
}
#endif

#ifdef F_NORM_BACKWARD
KERNEL(k0)
{
    EACH_ROW(g, GROUPS) {
        const num mean = MEAN(g), rstd = RSTD(g);
        num t = 0, product = 0;
        OVER(e, GROUP_SIZE) {
            num share = IN0(NORM_AT(e)) * SCALE(PARAMETER(e));
            t += share;
            product += share * (IN1(NORM_AT(e)) - mean) * rstd;
        }
        t = SUM(t) / GROUP_SIZE;
        product = SUM(product) / GROUP_SIZE;
#ifndef CENTRED
        t = 0;
#endif
        OVER(e, GROUP_SIZE) {
            num x = (IN1(NORM_AT(e)) - mean) * rstd;
            OUT0(NORM_AT(e), rstd * (IN0(NORM_AT(e)) * SCALE(PARAMETER(e)) - t - x * product));
        }
    }
}
#ifdef HAS_PARAMETERS
/* A parameter's gradient: over all groups, or over the runs of its channel. */
KERNEL(k1)
{
    EACH_ROW(j, PARAMETERS) {
        num scale = 0, shift = 0;
        OVER(e, PER_PARAMETER) {
            const long long at = BY_PLACE ? e * RUN + j : (e / RUN * PARAMETERS + j) * RUN + e % RUN;
            const long long g = BY_PLACE ? e : WHOLE_BATCH ? j : e / RUN * CYCLE + j / CHANNELS;
            num dy = IN0(at);
            scale += dy * (IN1(at) - MEAN(g)) * RSTD(g);
            shift += dy;
        }
        scale = SUM(scale);
        shift = SUM(shift);
        if (FIRST) {
            OUT1(j, scale);
#ifdef CENTRED
            OUT2(j, shift);
#endif
        }
    }
}
#endif
#endif

#ifdef F_STAT_UPDATE
KERNEL(k0)
{
    EACH(c, COUNT) {
        num s = IN1(c);
        s = VARIANCE ? (1 / (s * s) - (num)EPSILON) * ELEMENTS / (ELEMENTS - 1) : s;
        OUT0(c, (1 - (num)MOMENTUM) * IN0(c) + (num)MOMENTUM * s);
    }
}
#endif

/* ---- pooling: planes of three dimensions; x, y: sizes; windows w, strides s, dilations d, padding before and after ---- */
#ifdef F_POOL
#define PLANE_X ((long long)X0 * X1 * X2)
#define PLANE_Y ((long long)Y0 * Y1 * Y2)
#define EACH_OF_WINDOW                                                                                                 \
    for (int i = 0; i < W0; i++)                                                                                       \
        for (int j = 0; j < W1; j++)                                                                                   \
            for (int k = 0; k < W2; k++)
__device__ long long place_of(long long y, int i, int j, int k)
{
    const long long a = y / (Y1 * Y2) * S0 + i * D0 - P0, b = y / Y2 % Y1 * S1 + j * D1 - P1, c = y % Y2 * S2 + k * D2 - P2;
    return a < 0 || b < 0 || c < 0 || a >= X0 || b >= X1 || c >= X2 ? -1 : (a * X1 + b) * X2 + c;
}
/* The output whose window has x at its element (i, j, k), or -1. */
__device__ long long output_of(long long x, int i, int j, int k)
{
    const long long a = x / (X1 * X2) + P0 - i * D0, b = x / X2 % X1 + P1 - j * D1, c = x % X2 + P2 - k * D2;
    if (a < 0 || b < 0 || c < 0 || a % S0 || b % S1 || c % S2 || a / S0 >= Y0 || b / S1 >= Y1 || c / S2 >= Y2)
        return -1;
    return (a / S0 * Y1 + b / S1) * Y2 + c / S2;
}
__device__ int inside(long long first, int w, int d, int before, int after, int size)
{
    int n = 0;
    for (int i = 0; i < w; i++)
        n += first + i * d >= before && first + i * d < size + after;
    return n;
}
__device__ num share_of(long long y)
{
    return (num)inside(y / (Y1 * Y2) * S0 - P0, W0, D0, INCLUDE_PAD ? -P0 : 0, INCLUDE_PAD ? Q0 : 0, X0) *
           inside(y / Y2 % Y1 * S1 - P1, W1, D1, INCLUDE_PAD ? -P1 : 0, INCLUDE_PAD ? Q1 : 0, X1) *
           inside(y % Y2 * S2 - P2, W2, D2, INCLUDE_PAD ? -P2 : 0, INCLUDE_PAD ? Q2 : 0, X2);
}
#endif

#ifdef F_MAX_POOL
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_Y) {
        const long long base = o / PLANE_Y * PLANE_X;
        num best = -INF;
        EACH_OF_WINDOW {
            const long long at = place_of(o % PLANE_Y, i, j, k);
            if (at >= 0)
                best = larger(IN0(base + at), best);
        }
        OUT0(o, best);
    }
}
#endif

#ifdef F_MAX_POOL_GRAD
__device__ long long largest_at(PARAMS, long long plane, long long y)
{
    long long best = -1;
    num most = 0;
    EACH_OF_WINDOW {
        const long long at = place_of(y, i, j, k);
        if (at >= 0 && (best < 0 || IN1(plane * PLANE_X + at) > most)) {
            best = at;
            most = IN1(plane * PLANE_X + at);
        }
    }
    return best;
}
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_X) {
        num sum = 0;
        EACH_OF_WINDOW {
            const long long y = output_of(o % PLANE_X, i, j, k);
            if (y >= 0 && largest_at(ARGUMENTS, o / PLANE_X, y) == o % PLANE_X)
                sum += IN0(o / PLANE_X * PLANE_Y + y);
        }
        OUT0(o, sum);
    }
}
#endif

#ifdef F_AVG_POOL
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_Y) {
        num sum = 0;
        EACH_OF_WINDOW {
            const long long at = place_of(o % PLANE_Y, i, j, k);
            sum += at < 0 ? (num)0 : IN0(o / PLANE_Y * PLANE_X + at);
        }
        OUT0(o, sum / share_of(o % PLANE_Y));
    }
}
#endif

#ifdef F_AVG_POOL_GRAD
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_X) {
        num sum = 0;
        EACH_OF_WINDOW {
            const long long y = output_of(o % PLANE_X, i, j, k);
            sum += y < 0 ? (num)0 : IN0(o / PLANE_X * PLANE_Y + y) / share_of(y);
        }
        OUT0(o, sum);
    }
}
#endif

#ifdef F_LP_POOL
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_Y) {
        num sum = 0;
        EACH_OF_WINDOW {
            const long long at = place_of(o % PLANE_Y, i, j, k);
            sum += at < 0 ? (num)0 : POW(FABS(IN0(o / PLANE_Y * PLANE_X + at)), (num)POWER);
        }
        OUT0(o, POW(sum, 1 / (num)POWER));
    }
}
#endif

/* Rows are planes: outer planes x EXTENT. */
#ifdef F_GLOBAL_POOL
KERNEL(k0)
{
    EACH_ROW(r, ROW_COUNT) {
        num sum = 0, top = -INF;
        OVER(i, EXTENT) {
            num x = IN0(r * EXTENT + i);
            sum += x;
            top = larger(x, top);
        }
        sum = SUM(sum);
        top = LARGEST_OF(top);
        if (FIRST)
            OUT0(r, TAKES_LARGEST ? top : sum / EXTENT);
    }
}
#endif

#ifdef F_GLOBAL_POOL_GRAD
KERNEL(k0)
{
    EACH(r, ROW_COUNT) {
        long long best = -1;
#ifdef TAKES_LARGEST
        best = 0;
        for (long long i = 1; i < EXTENT; i++)
            best = IN1(r * EXTENT + i) > IN1(r * EXTENT + best) ? i : best;
#endif
        for (long long i = 0; i < EXTENT; i++)
            OUT0(r * EXTENT + i, best < 0 ? IN0(r) / EXTENT : best == i ? IN0(r) : (num)0);
    }
}
#endif

#ifdef F_ADAPTIVE
__device__ bool covers(long long x, long long y, long long xs, long long ys)
{
    return x >= y * xs / ys && x < ((y + 1) * xs + ys - 1) / ys;
}
__device__ num length_of(long long y, long long xs, long long ys) { return (num)(((y + 1) * xs + ys - 1) / ys - y * xs / ys); }
__device__ num weight_of(long long x, long long y)
{
    const long long y0 = y / (Y1 * Y2), y1 = y / Y2 % Y1, y2 = y % Y2;
    if (!covers(x / (X1 * X2), y0, X0, Y0) || !covers(x / X2 % X1, y1, X1, Y1) || !covers(x % X2, y2, X2, Y2))
        return 0;
    return 1 / (length_of(y0, X0, Y0) * length_of(y1, X1, Y1) * length_of(y2, X2, Y2));
}
#define PLANE_X ((long long)X0 * X1 * X2)
#define PLANE_Y ((long long)Y0 * Y1 * Y2)
KERNEL(k0)
{
#ifdef SPREADS
    EACH(o, PLANES * PLANE_X) {
        num sum = 0;
        for (long long y = 0; y < PLANE_Y; y++)
            sum += weight_of(o % PLANE_X, y) * IN0(o / PLANE_X * PLANE_Y + y);
        OUT0(o, sum);
    }
#else
    EACH(o, PLANES * PLANE_Y) {
        num sum = 0;
        for (long long x = 0; x < PLANE_X; x++)
            sum += weight_of(x, o % PLANE_Y) * IN0(o / PLANE_Y * PLANE_X + x);
        OUT0(o, sum);
    }
#endif
}
#endif

/* ---- resampling: each element y of the large side reads, or adds to, the two nearest of the small side ---- */
#ifdef F_RESIZE
#define PLANE_X ((long long)X0 * X1 * X2)
#define PLANE_Y ((long long)Y0 * Y1 * Y2)
struct taps { long long at[2]; num weight[2]; };
__device__ long long inside(double x, long long size) { return (long long)(x < 0 ? 0 : x > size - 1 ? size - 1 : x); }
__device__ taps taps_of(long long y, long long xs, long long ys)
{
    const double x = HALF_PIXEL ? (y + 0.5) * xs / ys - 0.5
                     : ALIGN_CORNERS ? (ys > 1 ? (double)y * (xs - 1) / (ys - 1) : 0.0) : (double)y * xs / ys;
    taps t;
    if (IS_LINEAR) {
        t.at[0] = inside(floor(x), xs);
        t.at[1] = inside(floor(x) + 1, xs);
        t.weight[1] = (num)(x - floor(x));
        t.weight[0] = 1 - t.weight[1];
    } else {
        const double near = NEAREST == 0 ? floor(x) : NEAREST == 1 ? ceil(x) : NEAREST == 2 ? ceil(x - 0.5) : floor(x + 0.5);
        t.at[0] = inside(near, xs);
        t.at[1] = 0;
        t.weight[0] = 1;
        t.weight[1] = 0;
    }
    return t;
}
#ifdef SPREADS
KERNEL(k0)
{
    EACH(o, PLANES * PLANE_X)
        OUT0(o, 0);
}
KERNEL(k1)
#else
KERNEL(k0)
#endif
{
    EACH(o, PLANES * PLANE_Y) {
        const long long y = o % PLANE_Y, base = o / PLANE_Y * PLANE_X;
        const taps a = taps_of(y / (Y1 * Y2), X0, Y0), b = taps_of(y / Y2 % Y1, X1, Y1), c = taps_of(y % Y2, X2, Y2);
        num sum = 0;
        for (int t = 0; t < 8; t++) {
            const num weight = a.weight[t / 4] * b.weight[t / 2 % 2] * c.weight[t % 2];
            const long long x = base + (a.at[t / 4] * X1 + b.at[t / 2 % 2]) * X2 + c.at[t % 2];
            if (weight == 0)
                continue;
#ifdef SPREADS
            atomicAdd(o0 + at_o0(x), weight * IN0(o));
#else
            sum += weight * IN0(x);
#endif
        }
#ifndef SPREADS
        OUT0(o, sum);
#endif
    }
}
#endif

/* ---- by index ---- */
#ifdef F_GATHER /* [before, i, after] = data [before, index(i), after]; SPREADS: added there */
#ifdef SPREADS
KERNEL(k0)
{
    EACH(o, BEFORE * EXTENT * AFTER)
        OUT0(o, 0);
}
KERNEL(k1)
#else
KERNEL(k0)
#endif
{
    EACH(o, BEFORE * PICKED * AFTER) {
        long long row = IX1(o / AFTER % PICKED);
        row += row < 0 ? EXTENT : 0;
        const bool valid = row >= 0 && row < EXTENT;
        const long long at = (o / AFTER / PICKED * EXTENT + row) * AFTER + o % AFTER;
#ifdef SPREADS
        if (valid)
            atomicAdd(o0 + at_o0(at), IN0(o));
#else
        OUT0(o, valid ? IN0(at) : (num)0);
#endif
    }
}
#endif

#ifdef F_GATHER_ELEMENTS /* there_of(i): the index's place in the data, with 0 along the axis */
KERNEL(k0)
{
    EACH(o, COUNT) {
        long long at = IX1(o);
        at += at < 0 ? EXTENT : 0;
        OUT0(o, at >= 0 && at < EXTENT ? IN0(there_of(o) + at * INNER) : (num)0);
    }
}
#endif

#ifdef F_ONE_HOT
KERNEL(k0)
{
    EACH(o, COUNT) {
        long long at = IX0(o / (INNER * EXTENT) * INNER + o % INNER);
        at += at < 0 ? EXTENT : 0;
        OUT0(o, IN1(o / INNER % EXTENT == at ? 1 : 0));
    }
}
#endif

/* ---- by place ---- */
#ifdef F_FLAT
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, IN0(o));
}
#endif

#ifdef F_TRIANGLE
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long right = o % COLUMNS - o / COLUMNS % ROWS;
#ifdef IS_EYE
        OUT0(o, right == DIAGONAL ? 1 : 0);
#else
        OUT0(o, (UPPER ? right >= DIAGONAL : right <= DIAGONAL) ? IN0(o) : (num)0);
#endif
    }
}
#endif

#ifdef F_IOTA
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, START + (double)o * DELTA);
}
#endif

#ifdef F_SOURCE /* source_of(o): which element of the operand it is */
KERNEL(k0)
{
    EACH(o, COUNT)
        OUT0(o, IN0(source_of(o)));
}
#endif

#ifdef F_BITS
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long x = LEFT(o), y = RIGHT(o);
        OUT0(o, IS_NOT_BOOL ? (x == 0 ? 1 : 0) : BITS);
    }
}
#endif

/* ---- random numbers: by seeds, operator and place in the unsplit result (rule R8 of plan/MODEL.md) ---- */
#ifdef F_RANDOM
typedef unsigned long long word;
__device__ word rotated(word x, int by) { return x << by | x >> (64 - by); }
__device__ word low_of(word k) { return rotated(k * 0x87c37b91114253d5ULL, 31) * 0x4cf5ad432745937fULL; }
__device__ word high_of(word k) { return rotated(k * 0x4cf5ad432745937fULL, 33) * 0x87c37b91114253d5ULL; }
__device__ word lane_of(word k)
{
    k = (k ^ k >> 33) * 0xff51afd7ed558ccdULL;
    k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return k ^ k >> 33;
}
__device__ double draw(word seed, word own, word op, word place)
{
    const word words[4] = {seed, own, op, place};
    word lo = 0, hi = 0;
    for (int i = 0; i < 4; i += 2) {
        lo = (rotated(lo ^ low_of(words[i]), 27) + hi) * 5 + 0x52dce729;
        hi = (rotated(hi ^ high_of(words[i + 1]), 31) + lo) * 5 + 0x38495ab5;
    }
    lo ^= 32;
    hi ^= 32;
    lo += hi;
    hi += lo;
    lo = lane_of(lo) + lane_of(hi);
    return (double)(lo >> 11) * 1.1102230246251565404e-16;
}
#ifdef IS_MULTINOMIAL
/* The class at which the running sum of chances passes the draw. */
__device__ long long choice_of(OPERANDS, long long row, double uniform)
{
    double top = -1e300, total = 0, sum = 0;
    for (long long c = 0; c < CLASSES; c++)
        top = (double)IN0(row * CLASSES + c) > top ? (double)IN0(row * CLASSES + c) : top;
    for (long long c = 0; c < CLASSES; c++)
        total += exp((double)IN0(row * CLASSES + c) - top);
    for (long long c = 0; c < CLASSES; c++) {
        sum += exp((double)IN0(row * CLASSES + c) - top) / total;
        if (uniform < sum)
            return c;
    }
    return CLASSES - 1;
}
#endif
#define DRAW(turn) draw(seed, (word)OWN_SEED ^ (word)(turn) << 32, op, place)
KERNEL(k0)
{
    EACH(o, COUNT) {
        const word place = (word)place_of(ORIGIN_ARGUMENTS, o);
#ifdef IS_DROPOUT
        const bool keep = DRAW(0) >= RATIO;
        OUT0(o, keep ? IN0(o) / (1 - (num)RATIO) : (num)0);
        OUT1(o, keep ? 1 : 0);
#endif
#ifdef IS_UNIFORM
        OUT0(o, LOW + (HIGH - LOW) * DRAW(0));
#endif
#ifdef IS_NORMAL
        OUT0(o, MEAN_VALUE + DEVIATION * sqrt(-2 * log(1 - DRAW(0))) * cos(6.28318530717958647693 * DRAW(1)));
#endif
#ifdef IS_MULTINOMIAL
        OUT0(o, choice_of(ARGUMENTS, o / DRAWS, DRAW(0)));
#endif
#ifdef IS_BERNOULLI
        OUT0(o, DRAW(0) < IN0(o) ? 1 : 0);
#endif
    }
}
#endif

/* ---- products and convolutions for layouts that the libraries do not take: right, but not measured ---- */
#ifdef F_PRODUCT
KERNEL(k0)
{
    EACH(o, COUNT) {
        const long long row = o / N % M, column = o % N, a = batch_a(o / N / M) * M * K, b = batch_b(o / N / M) * K * N;
        num sum = 0;
        for (long long k = 0; k < K; k++)
            sum += IN0(a + (TRANS_A ? k * M + row : row * K + k)) * IN1(b + (TRANS_B ? column * K + k : k * N + column));
        OUT0(o, (num)ALPHA * sum + ADDEND(o));
    }
}
#endif

#ifdef F_CONV
#define CX (GROUP * PER_X)
#define CY (GROUP * PER_Y)
#define EACH_OF_KERNEL                                                                                                 \
    for (int i = 0; i < W0; i++)                                                                                       \
        for (int j = 0; j < W1; j++)                                                                                   \
            for (int k = 0; k < W2; k++)
#define WEIGHT(f, c) ((((long long)(f) * PER_X + (c)) * W0 + i) * W1 * W2 + j * W2 + k)
#endif
#ifdef F_CONV_Y
KERNEL(k0)
{
    EACH(o, SAMPLES * CY * PLANE_Y) {
        const long long f = o / PLANE_Y % CY, n = o / PLANE_Y / CY;
        num sum = 0;
        EACH_OF_KERNEL {
            const long long x = place_of(o % PLANE_Y, i, j, k);
            for (long long c = 0; c < PER_X && x >= 0; c++)
                sum += IN0((n * CX + f / PER_Y * PER_X + c) * PLANE_X + x) * IN1(WEIGHT(f, c));
        }
        OUT0(o, sum + ADDENDS(o, o / PLANE_Y % CY));
    }
}
#endif
#ifdef F_CONV_X
KERNEL(k0)
{
    EACH(o, SAMPLES * CX * PLANE_X) {
        const long long c = o / PLANE_X % CX, n = o / PLANE_X / CX;
        num sum = 0;
        EACH_OF_KERNEL {
            const long long y = output_of(o % PLANE_X, i, j, k);
            for (long long f = c / PER_X * PER_Y; f < (c / PER_X + 1) * PER_Y && y >= 0; f++)
                sum += IN0((n * CY + f) * PLANE_Y + y) * IN1(WEIGHT(f, c % PER_X));
        }
        OUT0(o, sum + ADDENDS(o, o / PLANE_X % CX));
    }
}
#endif
#ifdef F_CONV_W
KERNEL(k0)
{
    EACH(o, COUNT) {
        const int i = (int)(o / (W1 * W2) % W0), j = (int)(o / W2 % W1), k = (int)(o % W2);
        const long long c = o / (W0 * W1 * W2) % PER_X, f = o / (W0 * W1 * W2) / PER_X;
        num sum = 0;
        for (long long n = 0; n < SAMPLES; n++)
            for (long long y = 0; y < PLANE_Y; y++) {
                const long long x = place_of(y, i, j, k);
                if (x >= 0)
                    sum += IN0((n * CY + f) * PLANE_Y + y) * IN1((n * CX + f / PER_Y * PER_X + c) * PLANE_X + x);
            }
        OUT0(o, sum);
    }
}
#endif
