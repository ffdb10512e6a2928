#include "figures.h"

#include <stdio.h>
#include <string.h>

#include "zoo/zoo.h"

const struct figure_network figure_networks[] = {
#define FIGURES(name, options, gb, s, at_peak, rate, a, b, c, d, e, f, g, h)                                           \
    {name, options, gb, s, at_peak, rate, {a, b, c, d}, {e, f, g, h}},
#include "figures.def"
};
const uint32_t figure_network_count = sizeof figure_networks / sizeof *figure_networks;
const uint64_t figure_evaluations = FIGURES_COUNTED;

const struct figure_network *figure_network_find(const char *name)
{
    for (uint32_t i = 0; i < figure_network_count; i++)
        if (!strcmp(figure_networks[i].name, name))
            return &figure_networks[i];
    return NULL;
}

static uint32_t split_options(char *text, struct mg_zoo_option *option, uint32_t most)
{
    uint32_t count = 0;
    for (char *save, *pair = strtok_r(text, ",", &save); pair && count < most; pair = strtok_r(NULL, ",", &save)) {
        char *value = strchr(pair, '=');
        *value = '\0';
        option[count++] = (struct mg_zoo_option){pair, value + 1};
    }
    return count;
}

enum mg_code figure_graph(const struct figure_network *network, struct mg_arena *arena, struct mg_graph **out,
                          struct mg_error *err)
{
    struct mg_graph *forward, *step;
    struct mg_training training = {.loss = MG_LOSS_SQUARED, .optimizer = MG_OPTIMIZER_SGD};
    struct mg_zoo_option option[4] = {{"variant", "paper"}};
    uint32_t count = 1 + split_options(mg_arena_strdup(arena, network->options), option + 1, 3);
    enum mg_code code = mg_zoo_build(network->name, option, count, arena, &forward, err);
    if (code == MG_OK)
        code = mg_graph_differentiate(forward, &training, arena, &step, err);
    return code == MG_OK ? mg_graph_normalise(step, arena, out, err) : code;
}

static double peak_within(const struct mg_point *points, uint32_t count, double latency)
{
    double best = 1e300;
    for (uint32_t i = 0; i < count; i++)
        if (points[i].figures.latency_s <= latency && (double)points[i].figures.peak_bytes < best)
            best = (double)points[i].figures.peak_bytes;
    return best;
}

static double latency_under(const struct mg_point *points, uint32_t count, double peak)
{
    double best = 1e300;
    for (uint32_t i = 0; i < count; i++)
        if ((double)points[i].figures.peak_bytes <= peak && points[i].figures.latency_s < best)
            best = points[i].figures.latency_s;
    return best;
}

/* The front's peak at each micro-batching point's latency, relative to that point. */
static void compare_with_hand(struct figures *f, const struct mg_search_result *r,
                              const struct mg_baseline_result *hand)
{
    for (uint32_t i = 0; i < hand->point_count; i++) {
        double latency = hand->points[i].figures.latency_s;
        double by_hand = peak_within(hand->points, hand->point_count, latency);
        double ratio = peak_within(r->front, r->front_count, latency * (1 + 1e-6)) / by_hand;
        if (ratio > f->found.worst)
            f->worst_at = latency / f->latency_s;
        f->found.worst = ratio > f->found.worst ? ratio : f->found.worst;
    }
    double peak_110 = peak_within(hand->points, hand->point_count, 1.10 * f->latency_s) / 1e9;
    double peak_105 = peak_within(hand->points, hand->point_count, 1.05 * f->latency_s) / 1e9;
    f->hand_110 = peak_110 < f->hand_110 ? peak_110 : f->hand_110;
    f->hand_105 = peak_105 < f->hand_105 ? peak_105 : f->hand_105;
}

struct figures figures_of(const struct figure_network *network, const struct mg_search_result *r)
{
    struct figures f = {.original_gb = (double)r->original.figures.peak_bytes / 1e9,
                        .latency_s = r->original.figures.latency_s};
    f.found.peak_110 = peak_within(r->front, r->front_count, 1.10 * f.latency_s) / 1e9;
    f.found.peak_105 = peak_within(r->front, r->front_count, 1.05 * f.latency_s) / 1e9;
    f.found.ratio = latency_under(r->front, r->front_count, network->at_peak * 1e9) / f.latency_s;
    f.hand_110 = f.hand_105 = f.original_gb;
    for (uint32_t b = 0; b < r->baseline_count; b++)
        if (!strcmp(r->baselines[b].name, "microbatch"))
            compare_with_hand(&f, r, &r->baselines[b]);
    return f;
}

static const char *mark(double found, double floor)
{
    return found <= floor ? "ok" : "MISSED";
}

bool figures_print(const struct figure_network *network, const struct figure_floors *floors,
                   const struct mg_search_result *r)
{
    const struct figures f = figures_of(network, r);
    const struct figure_floors *found = &f.found;
    printf("%-13s %6.3f GB %.4f s | <=1.10: %6.3f GB (floor %.3f, by hand %.2f) %s | <=1.05: %6.3f GB (floor %.3f, by "
           "hand %.2f) %s | ratio at %.2f GB: %.4f (floor %.3f) %s | worst/by hand %.3f at %.3f (floor %.3f) %s | "
           "%u points, checker %llu accepted %llu rejected | %llu evaluations\n",
           network->name, f.original_gb, f.latency_s, found->peak_110, floors->peak_110, f.hand_110,
           mark(found->peak_110, floors->peak_110), found->peak_105, floors->peak_105, f.hand_105,
           mark(found->peak_105, floors->peak_105), network->at_peak, found->ratio, floors->ratio,
           mark(found->ratio, floors->ratio), found->worst, f.worst_at, floors->worst,
           mark(found->worst, floors->worst), r->front_count, (unsigned long long)r->accepted,
           (unsigned long long)r->rejected, (unsigned long long)r->evaluations);
    fflush(stdout);
    return found->peak_110 <= floors->peak_110 && found->peak_105 <= floors->peak_105 &&
           found->ratio <= floors->ratio && found->worst <= floors->worst && r->rejected == 0;
}
