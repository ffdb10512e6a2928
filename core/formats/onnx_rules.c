/* The table of ONNX operators. */
#include "formats/onnx_rules.h"

#include <string.h>

#define ANY UINT32_MAX
static const struct onnx_rule rules[] = {
#define MG_ONNX(op_type, min_in, max_in, rule, which, fold, fold_which)                                                \
    {op_type, min_in, max_in, onnx_rule_##rule, (int)(which), onnx_fold_##fold, (int)(fold_which)},
#include "formats/onnx_rules.def"
#undef MG_ONNX
};
enum { RULES = sizeof rules / sizeof rules[0] };

bool onnx_fold_none(struct onnx_call *c, int which)
{
    (void)c;
    (void)which;
    return false;
}

const struct onnx_rule *mg_onnx_rule_of(const char *domain, const char *op_type)
{
    if (domain && *domain && strcmp(domain, "ai.onnx") != 0)
        return NULL;
    for (unsigned i = 0; i < RULES; i++)
        if (strcmp(rules[i].op_type, op_type) == 0)
            return &rules[i];
    return NULL;
}

bool mg_onnx_knows(const char *op_type)
{
    return mg_onnx_rule_of("", op_type) != NULL;
}
