/* The zoo's catalogue: finds a network by name, resolves its options, builds it. */
#include "zoo/zoo.h"

#include <stdio.h>
#include <string.h>

#include "zoo/build.h"

static const struct zoo_family *const families[] = {&zoo_resnet, &zoo_bert,     &zoo_gpt,    &zoo_llama,  &zoo_vit,
                                                    &zoo_unet,   &zoo_densenet, &zoo_plain,  &zoo_mobile, &zoo_moe,
                                                    &zoo_lstm,   &zoo_random,   &zoo_figures};
#define FAMILY_COUNT (sizeof families / sizeof families[0])

static const struct zoo_network *network_at(uint32_t index)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        if (index < families[i]->count)
            return &families[i]->networks[index];
        index -= families[i]->count;
    }
    return NULL;
}

uint32_t mg_zoo_count(void)
{
    uint32_t count = 0;
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        count += families[i]->count;
    return count;
}

const struct mg_zoo_entry *mg_zoo_at(uint32_t index)
{
    const struct zoo_network *network = network_at(index);
    return network ? &network->entry : NULL;
}

/* ---- errors that list what exists ---- */

struct list {
    char text[400];
    size_t used;
};

static void append(struct list *list, const char *name)
{
    size_t room = sizeof list->text - list->used;
    int length = snprintf(list->text + list->used, room, "%s%s", list->used ? ", " : "", name);
    if (length > 0 && (size_t)length < room)
        list->used += (size_t)length;
    else
        list->text[list->used] = 0;
}

/* As many names as a message holds. */
static enum mg_code fail_unknown_network(const char *name, struct mg_error *err)
{
    struct list list = {.used = 0};
    bool all = true;
    for (uint32_t i = 0; i < mg_zoo_count(); i++) {
        size_t before = list.used;
        append(&list, network_at(i)->entry.name);
        all = all && list.used > before;
    }
    return mg_fail(err, MG_ERR_INVALID, "/model", "no network is called \"%.40s\"; there are %s%s", name, list.text,
                   all ? "" : ", ...");
}

static enum mg_code fail_unknown_option(const struct mg_zoo_entry *entry, const char *name, struct mg_error *err)
{
    char pointer[80];
    struct list list = {.used = 0};
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        append(&list, entry->parameters[i].name);
    snprintf(pointer, sizeof pointer, "/%.70s", name);
    return mg_fail(err, MG_ERR_INVALID, pointer, "%s has no option \"%.40s\"; it has %s", entry->name, name, list.text);
}

/* ---- options ---- */

static enum mg_code resolve_options(struct net *net, const struct mg_zoo_option *options, uint32_t option_count,
                                    struct mg_error *err)
{
    const struct mg_zoo_entry *entry = &net->network->entry;
    net->values = MG_NEW_ARRAY(net->arena, const char *, entry->parameter_count + 1);
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        net->values[i] = entry->parameters[i].fallback;
    for (uint32_t i = 0; i < option_count; i++) {
        uint32_t at = 0;
        while (at < entry->parameter_count && strcmp(entry->parameters[at].name, options[i].name) != 0)
            at++;
        if (at == entry->parameter_count)
            return fail_unknown_option(entry, options[i].name, err);
        net->values[at] = mg_arena_strdup(net->arena, options[i].value);
    }
    return MG_OK;
}

static bool has_option(const struct net *net, const char *name)
{
    const struct mg_zoo_entry *entry = &net->network->entry;
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        if (strcmp(entry->parameters[i].name, name) == 0)
            return true;
    return false;
}

/* The index of the option's value among `choices`. */
static uint32_t choose(struct net *net, const char *name, const char *const *choices, uint32_t count)
{
    char pointer[32];
    struct list list = {.used = 0};
    const char *text = net_option_text(net, name);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0)
            return i;
        append(&list, choices[i]);
    }
    snprintf(pointer, sizeof pointer, "/%s", name);
    net_fail(net, pointer, "%s of %s is one of %s, not \"%s\"", name, net->network->entry.name, list.text, text);
    return 0;
}

static void read_common_options(struct net *net)
{
    static const enum mg_dtype dtypes[] = {MG_DTYPE_F32, MG_DTYPE_BF16, MG_DTYPE_F16, MG_DTYPE_F64};
    net->dtype = MG_DTYPE_F32;
    net->g->math = MG_MATH_TF32;
    if (has_option(net, "variant"))
        net->real = choose(net, "variant", (const char *const[]){"real", "paper"}, 2) == 0;
    if (has_option(net, "dtype"))
        net->dtype = dtypes[choose(net, "dtype", (const char *const[]){"f32", "bf16", "f16", "f64"}, 4)];
    if (has_option(net, "math") && choose(net, "math", (const char *const[]){"tf32", "f32"}, 2) == 1)
        net->g->math = MG_MATH_F32;
    if (has_option(net, "dropout"))
        net->dropout = net_option_real(net, "dropout", 0, 0.99);
}

/* ---- building ---- */

struct request {
    const struct zoo_network *network;
    const struct mg_zoo_option *options;
    uint32_t option_count;
    struct mg_arena *arena;
    struct mg_graph **out;
};

static enum mg_code build_network(void *context, struct mg_error *err)
{
    struct request *request = context;
    struct mg_error ignored = {0};
    struct net net = {.arena = request->arena, .network = request->network, .path = "", .err = err ? err : &ignored};
    enum mg_code code = resolve_options(&net, request->options, request->option_count, err);
    if (code)
        return code;
    net.g = mg_graph_new(request->arena, request->network->entry.name);
    read_common_options(&net);
    if (net.code == MG_OK)
        request->network->build(&net, request->network->config);
    *request->out = net.g;
    return net.code;
}

enum mg_code mg_zoo_build(const char *name, const struct mg_zoo_option *options, uint32_t option_count,
                          struct mg_arena *arena, struct mg_graph **out, struct mg_error *err)
{
    struct request request = {NULL, options, option_count, arena, out};
    for (uint32_t i = 0; (request.network = network_at(i)) != NULL; i++)
        if (strcmp(request.network->entry.name, name) == 0)
            return mg_arena_guard(arena, build_network, &request, err);
    return fail_unknown_network(name, err);
}
