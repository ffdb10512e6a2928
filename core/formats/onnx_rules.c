/* The table of ONNX operators. */
#include "formats/onnx_rules.h"

#include <string.h>

#define ANY UINT32_MAX
static const struct onnx_rule rules[] = {
#define MG_ONNX(op_type, min_in, max_in, rule, which, fold, fold_which)                                                \
    {op_type, min_in, max_in, onnx_rule_##rule, (int)(which), onnx_fold_##fold, (int)(fold_which)},
#define MG_ONNX_MICROSOFT(...)
#include "formats/onnx_rules.def"
#undef MG_ONNX
#undef MG_ONNX_MICROSOFT
};
static const struct onnx_rule microsoft_rules[] = {
#define MG_ONNX(...)
#define MG_ONNX_MICROSOFT(op_type, min_in, max_in, rule)                                                               \
    {op_type, min_in, max_in, onnx_rule_##rule, 0, onnx_fold_none, 0},
#include "formats/onnx_rules.def"
#undef MG_ONNX
#undef MG_ONNX_MICROSOFT
};
enum { RULES = sizeof rules / sizeof rules[0], MICROSOFT_RULES = sizeof microsoft_rules / sizeof microsoft_rules[0] };

bool onnx_fold_none(struct onnx_call *c, int which)
{
    (void)c;
    (void)which;
    return false;
}

const struct onnx_rule *mg_onnx_rule_of(const char *domain, const char *op_type)
{
    bool ours = !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
    if (!ours && strcmp(domain, "com.microsoft") != 0)
        return NULL;
    const struct onnx_rule *list = ours ? rules : microsoft_rules;
    for (unsigned i = 0; i < (ours ? (unsigned)RULES : (unsigned)MICROSOFT_RULES); i++)
        if (strcmp(list[i].op_type, op_type) == 0)
            return &list[i];
    return NULL;
}

bool mg_onnx_knows(const char *op_type)
{
    return mg_onnx_rule_of("", op_type) != NULL;
}
