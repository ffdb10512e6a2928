#include "search/limits.h"

static const double latency_targets[] = {1.00, 1.02, 1.05, 1.10, 1.20, 1.50};
static const double memory_targets[] = {0.8, 0.6, 0.4, 0.3, 0.2, 0.1};

uint64_t mg_limits_share(double ratio, uint64_t original_peak)
{
    double bytes = ratio * (double)original_peak;
    return bytes < 1 ? 1 : bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1000000000000000000;
}

static double beyond(double figure, double limit)
{
    return limit > 0 && figure > limit ? figure / limit - 1 : 0;
}

/* How far beyond the limits, as a sum of ratios; 0 when met. */
static double excess(const struct mg_limits *limits, const struct mg_figures *figures)
{
    return beyond(figures->latency_s, limits->latency_s) +
           beyond((double)figures->peak_bytes, (double)limits->peak_bytes) +
           beyond((double)figures->arena_bytes, (double)limits->arena_bytes);
}

bool mg_limits_met(const struct mg_limits *limits, const struct mg_figures *figures)
{
    return (limits->latency_s <= 0 || figures->latency_s <= limits->latency_s) &&
           (!limits->peak_bytes || figures->peak_bytes <= limits->peak_bytes) &&
           (!limits->arena_bytes || figures->arena_bytes <= limits->arena_bytes);
}

bool mg_limits_reach(const struct mg_limits *limits, const struct mg_figures *a, const struct mg_figures *b)
{
    bool fits = !limits->arena_bytes || a->arena_bytes <= limits->arena_bytes || a->arena_bytes <= b->arena_bytes;
    return fits && a->latency_s <= b->latency_s && a->peak_bytes <= b->peak_bytes;
}

bool mg_limits_prefer(const struct mg_limits *limits, const struct mg_figures *later, const struct mg_figures *earlier)
{
    double a = excess(limits, later), b = excess(limits, earlier);
    bool memory = limits->peak_bytes || limits->arena_bytes;
    return a < b || (a == b && !memory); /* the front descends in peak */
}

struct mg_limits mg_limits_usual(double original_latency_s)
{
    return (struct mg_limits){.latency_s = 1.10 * original_latency_s};
}

void mg_limits_targets(double original_latency_s, uint64_t original_peak, struct mg_limits out[MG_LIMITS_TARGETS])
{
    for (unsigned i = 0; i < MG_LIMITS_TARGETS / 2; i++) {
        *out++ = (struct mg_limits){.latency_s = latency_targets[i] * original_latency_s};
        *out++ = (struct mg_limits){.peak_bytes = (uint64_t)(memory_targets[i] * (double)original_peak)};
    }
}
