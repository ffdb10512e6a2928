/* The call of an operator's function: operands, then every attribute by its name. */
#include <ctype.h>

#include "export/torch_priv.h"

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* Texts of attributes that may stand in the code; others go into NAMES. */
static const char *const words[] = {"none",
                                    "tanh",
                                    "add",
                                    "mul",
                                    "max",
                                    "min",
                                    "avg",
                                    "constant",
                                    "reflect",
                                    "edge",
                                    "nearest",
                                    "linear",
                                    "cubic",
                                    "asymmetric",
                                    "half_pixel",
                                    "pytorch_half_pixel",
                                    "half_pixel_symmetric",
                                    "tf_half_pixel_for_nn",
                                    "align_corners",
                                    "floor",
                                    "ceil",
                                    "round_prefer_floor",
                                    "round_prefer_ceil",
                                    "zeros",
                                    "border",
                                    "reflection",
                                    "DCR",
                                    "CRD",
                                    "relu",
                                    "f64",
                                    "f32",
                                    "f16",
                                    "bf16",
                                    "f8e4m3",
                                    "f8e5m2",
                                    "i64",
                                    "i32",
                                    "i16",
                                    "i8",
                                    "u8",
                                    "u16",
                                    "u32",
                                    "u64",
                                    "bool",
                                    "",
                                    "LEFT",
                                    "RIGHT"};

static const char *text_of(struct mg_torch *t, const char *text)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], text) == 0)
            return mg_arena_printf(t->e->arena, "\"%s\"", words[i]);
    return mg_arena_printf(t->e->arena, "NAMES[%zu]", mg_torch_name(t, text));
}

static const char *number_of(struct mg_torch *t, double number)
{
    struct mg_writer w;
    mg_writer_init(&w);
    mg_write_double(&w, number);
    const char *text = mg_writer_finish(&w) ? mg_arena_strdup(t->e->arena, w.data) : "0.0";
    mg_writer_release(&w);
    if (strcmp(text, "null") == 0) /* JSON has no infinities */
        return number > 0 ? "math.inf" : number < 0 ? "-math.inf" : "math.nan";
    return text;
}

static const char *value_of(struct mg_torch *t, const struct mg_attr *attr)
{
    switch (attr->type) {
    case MG_ATTR_TYPE_INT:
        return mg_arena_printf(t->e->arena, "%lld", (long long)attr->i);
    case MG_ATTR_TYPE_FLOAT:
        return number_of(t, attr->f);
    case MG_ATTR_TYPE_INTS:
        return mg_torch_tuple(t->e->arena, attr->ints, attr->count);
    default:
        return text_of(t, attr->string);
    }
}

/* A part of iota begins at another number in each part. */
static const char *iota_start(struct mg_torch *t, mg_op op)
{
    struct mg_torch_box box;
    const struct mg_op_info *info = &t->e->g->ops[op];
    mg_torch_box_of(t, op, true, 0, t->depth, &box);
    return mg_arena_printf(t->e->arena, "%s + (%s) * %s", number_of(t, mg_op_attr_float(info, MG_ATTR_START)),
                           mg_torch_linear(t, &box.lo[0]), number_of(t, mg_op_attr_float(info, MG_ATTR_DELTA)));
}

/* What names the draw of a random operator: the same part draws the same numbers whenever it is computed. */
static const char *draw_of(struct mg_torch *t, mg_op op)
{
    struct mg_torch_box box;
    struct mg_arena *arena = t->e->arena;
    const char *origin = "";
    const struct mg_shape *whole = &t->e->g->values[t->e->g->ops[op].out[0]].shape;
    mg_torch_box_of(t, op, true, 0, t->depth, &box);
    for (uint32_t d = 0; d < whole->rank; d++)
        origin = mg_arena_printf(arena, "%s%s, ", origin, mg_torch_linear(t, &box.lo[d]));
    if (t->whole_draw[op])
        return mg_arena_printf(arena, "((seed, %u), %s, (%s))", op, mg_torch_tuple(arena, whole->dim, whole->rank),
                               origin);
    return mg_arena_printf(arena, "((seed, %u, %s), None, None)", op, origin);
}

static const char *append(struct mg_torch *t, const char *list, const char *key, const char *value)
{
    const char *comma = *list ? ", " : "";
    return key ? mg_arena_printf(t->e->arena, "%s%s%s=%s", list, comma, key, value)
               : mg_arena_printf(t->e->arena, "%s%s%s", list, comma, value);
}

static bool makes_from_nothing(const struct mg_op_desc *desc)
{
    return desc->in_count == 0;
}

static const char *text_attr(const struct mg_op_info *op, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(op->attrs, op->attr_count, key);
    return attr && attr->string ? attr->string : "";
}

static size_t word_size(const char *text)
{
    return isalpha((unsigned char)*text) || *text == '_' ? strspn(text, WORD) : 0;
}

bool mg_torch_can_call(const struct mg_op_info *op)
{
    const char *target = text_attr(op, MG_ATTR_TARGET);
    if (op->type != MG_OP_OPAQUE || strncmp(target, "aten.", 5) != 0 || !*text_attr(op, MG_ATTR_ARGUMENTS))
        return false;
    size_t name = word_size(target + 5), overload = target[5 + name] == '.' ? word_size(target + 6 + name) : 0;
    return name && overload && target[6 + name + overload] == 0;
}

const char *mg_torch_call_name(const struct mg_torch *t, const struct mg_op_info *op)
{
    const char *target = text_attr(op, MG_ATTR_TARGET), *module = op->module ? op->module : "";
    return mg_arena_printf(t->e->arena, "%.100s (\"%.100s\"%s%.100s)", *target ? target : "opaque", op->name,
                           *module ? " of module " : "", module);
}

/* "call_aten(torch.ops.aten.topk.default, NAMES[3], (v1, v2), device)" */
static const char *captured_call(struct mg_torch *t, mg_op op, const char *const *operands, uint32_t count)
{
    const struct mg_op_info *info = &t->e->g->ops[op];
    const char *list = "", *draw = "";
    for (uint32_t i = 0; i < count; i++)
        list = mg_arena_printf(t->e->arena, "%s%s, ", list, operands[i]);
    if (mg_op_purity(t->e->g, op) == MG_SEEDED)
        draw = mg_arena_printf(t->e->arena, ", draw=%s", draw_of(t, op));
    return mg_arena_printf(t->e->arena, "call_aten(torch.ops.%s, NAMES[%zu], (%s), %u, device%s)",
                           text_attr(info, MG_ATTR_TARGET), mg_torch_name(t, text_attr(info, MG_ATTR_ARGUMENTS)), list,
                           info->out_count, draw);
}

enum mg_code mg_torch_call(struct mg_torch *t, mg_op op, const char *const *operands, bool in_place, const char **out)
{
    struct mg_op_desc desc;
    const char *list = "";
    enum mg_code code = mg_torch_describe(t, op, t->depth, &desc);
    if (code != MG_OK)
        return code;
    if (desc.type == MG_OP_OPAQUE) {
        *out = captured_call(t, op, operands, desc.in_count);
        return MG_OK;
    }
    for (uint32_t i = 0; i < desc.in_count; i++)
        list = append(t, list, NULL, operands[i]);
    for (uint32_t i = 0; i < desc.attr_count; i++) {
        bool moved = desc.type == MG_OP_IOTA && desc.attrs[i].key == MG_ATTR_START && t->depth;
        const char *value = moved ? iota_start(t, op) : value_of(t, &desc.attrs[i]);
        list = append(t, list, mg_attr_name(desc.attrs[i].key), value);
    }
    if (mg_op_purity(t->e->g, op) == MG_SEEDED)
        list = append(t, list, "draw", draw_of(t, op));
    if (makes_from_nothing(&desc))
        list = append(t, list, "device", "device");
    *out = mg_arena_printf(t->e->arena, "op_%s%s(%s)", mg_op_type_name(desc.type), in_place ? "_" : "", list);
    return MG_OK;
}

bool mg_torch_call_in_place(const struct mg_torch *t, mg_op op)
{
    const char *name = mg_op_type_name(t->e->g->ops[op].type);
    return mg_torch_has_function(mg_arena_printf(t->e->arena, "op_%s_", name));
}
