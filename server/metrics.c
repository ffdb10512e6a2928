/* See metrics.h. Lines of one name stand together in the table; the first of them has the help. */
#include "server/metrics.h"

static const struct {
    const char *type, *name, *label, *help;
} table[] = {
#define METRIC(id, type, name, label, help) {type, name, label, help},
#include "server/metrics.def"
#undef METRIC
};

void mg_metrics_write(const struct mg_metrics *metrics, struct mg_writer *w)
{
    for (int k = 0; k < MG_METRIC_COUNT; k++) {
        if (*table[k].help)
            mg_write_text(w, "# HELP %s %s\n# TYPE %s %s\n", table[k].name, table[k].help, table[k].name,
                          table[k].type);
        if (*table[k].label)
            mg_write_text(w, "%s{%s} %.17g\n", table[k].name, table[k].label, metrics->value[k]);
        else
            mg_write_text(w, "%s %.17g\n", table[k].name, metrics->value[k]);
    }
}
