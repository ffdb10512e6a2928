/* Numbers for GET /metrics, one line each in metrics.def. */
#ifndef MG_SERVER_METRICS_H
#define MG_SERVER_METRICS_H

#include "base/json.h"

enum mg_metric {
#define METRIC(id, type, name, label, help) MG_METRIC_##id,
#include "server/metrics.def"
#undef METRIC
    MG_METRIC_COUNT
};

struct mg_metrics {
    double value[MG_METRIC_COUNT];
};

static inline void mg_metric_add(struct mg_metrics *metrics, enum mg_metric which, double amount)
{
    metrics->value[which] += amount;
}
static inline void mg_metric_set(struct mg_metrics *metrics, enum mg_metric which, double value)
{
    metrics->value[which] = value;
}
/* The text format of Prometheus, version 0.0.4. */
void mg_metrics_write(const struct mg_metrics *metrics, struct mg_writer *w);

#endif
