#include "server/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo/zoo.h"

void mg_answer_write_original(struct mg_writer *w, const struct mg_answer_original *original)
{
    mg_write_begin_object(w);
    mg_write_member_double(w, "latency_s", original->latency_s);
    mg_write_member_uint(w, "peak_bytes", original->peak_bytes);
    mg_write_member_uint(w, "arena_bytes", original->arena_bytes);
    mg_write_end_object(w);
}

static void write_ratio(struct mg_writer *w, const char *key, double value, double whole)
{
    mg_write_key(w, key);
    if (whole > 0)
        mg_write_double(w, value / whole);
    else
        mg_write_null(w);
}

void mg_answer_write_point(struct mg_writer *w, const struct mg_answer_point *point,
                           const struct mg_answer_original *original)
{
    mg_write_begin_object(w);
    mg_write_key(w, "plan");
    if (point->plan && *point->plan)
        mg_write_string(w, point->plan);
    else
        mg_write_null(w);
    mg_write_member_double(w, "latency_s", point->latency_s);
    mg_write_member_uint(w, "peak_bytes", point->peak_bytes);
    mg_write_member_uint(w, "arena_bytes", point->arena_bytes);
    mg_write_member_uint(w, "host_bytes", point->host_bytes);
    write_ratio(w, "latency_ratio", point->latency_s, original->latency_s);
    write_ratio(w, "memory_ratio", (double)point->peak_bytes, (double)original->peak_bytes);
    if (point->techniques) {
        mg_write_key(w, "techniques");
        mg_write_raw(w, point->techniques, strlen(point->techniques));
    }
    if (point->has_k) {
        mg_write_key(w, "k");
        if (point->k >= 0)
            mg_write_int(w, point->k);
        else
            mg_write_null(w);
    }
    if (point->more)
        point->more(w, point->context);
    mg_write_end_object(w);
}

void mg_answer_techniques(uint32_t mask, char out[MG_TECHNIQUES_TEXT])
{
    static const char *const names[] = {"fission", "window_fission", "remat", "swap", "reorder", "rewrite"};
    size_t used = (size_t)snprintf(out, MG_TECHNIQUES_TEXT, "[");
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (mask & (1u << i))
            used += (size_t)snprintf(out + used, MG_TECHNIQUES_TEXT - used, "%s\"%s\"", used > 1 ? "," : "", names[i]);
    snprintf(out + used, MG_TECHNIQUES_TEXT - used, "]");
}

void mg_answer_bytes(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    snprintf(out, 24,
             unit == 0     ? "%.0f %s"
             : value < 10  ? "%.2f %s"
             : value < 100 ? "%.1f %s"
                           : "%.0f %s",
             value, units[unit]);
}

struct unsupported {
    const char *target;
    uint64_t count, bytes;
};

static int by_count(const void *a, const void *b)
{
    const struct unsupported *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->target, y->target);
}

void mg_answer_write_unsupported(struct mg_writer *w, const struct mg_graph *g, struct mg_arena *scratch)
{
    struct unsupported *list = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < g->op_count; i++) {
        const struct mg_op_info *op = &g->ops[i];
        if (op->type != MG_OP_OPAQUE)
            continue;
        const char *target = mg_op_attr(op, MG_ATTR_TARGET)->string;
        size_t at = 0;
        while (at < count && strcmp(list[at].target, target) != 0)
            at++;
        if (at == count)
            *MG_PUSH(scratch, list, count, capacity) = (struct unsupported){.target = target};
        list[at].count++;
        for (uint32_t k = 0; k < op->out_count; k++)
            list[at].bytes += g->values[op->out[k]].bytes;
    }
    if (count)
        qsort(list, count, sizeof *list, by_count);
    mg_write_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        mg_write_begin_object(w);
        mg_write_member_string(w, "operator", *list[i].target ? list[i].target : "opaque");
        mg_write_member_uint(w, "count", list[i].count);
        mg_write_member_uint(w, "bytes", list[i].bytes);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
}

static void write_network(struct mg_writer *w, const struct mg_zoo_entry *entry)
{
    mg_write_begin_object(w);
    mg_write_member_string(w, "name", entry->name);
    mg_write_member_string(w, "title", entry->title);
    mg_write_key(w, "parameters");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < entry->parameter_count; i++) {
        mg_write_begin_object(w);
        mg_write_member_string(w, "name", entry->parameters[i].name);
        mg_write_member_string(w, "default", entry->parameters[i].fallback);
        mg_write_member_string(w, "help", entry->parameters[i].help);
        mg_write_end_object(w);
    }
    mg_write_end_array(w);
    mg_write_end_object(w);
}

void mg_answer_write_zoo(struct mg_writer *w)
{
    mg_write_begin_object(w);
    mg_write_key(w, "networks");
    mg_write_begin_array(w);
    for (uint32_t i = 0; i < mg_zoo_count(); i++)
        write_network(w, mg_zoo_at(i));
    mg_write_end_array(w);
    mg_write_end_object(w);
}

void mg_answer_visible(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && used + 1 < room; at++) {
        bool high = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* U+0080 to U+009F */
        out[used++] = *at < 0x20 || *at == 0x7f || high ? '?' : (char)*at;
        at += high;
    }
    out[used] = '\0';
}
