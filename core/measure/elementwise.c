#include "measure/elementwise.h"

#include <math.h>

static double number(const struct mg_prepared *p, enum mg_attr_key key)
{
    const struct mg_attr *attr = mg_attr_find(p->op.attrs, p->op.attr_count, key);
    if (!attr)
        return 0;
    return attr->type == MG_ATTR_TYPE_INT ? (double)attr->i : attr->type == MG_ATTR_TYPE_FLOAT ? attr->f : 0;
}

void mg_expression_of(const struct mg_prepared *p, struct mg_expression *out)
{
    double step = (double)mg_prepared_int(p, MG_ATTR_STEP);
    *out = (struct mg_expression){.power = number(p, MG_ATTR_POWER)};
#define MG_PARAMETER(name, key) out->name = number(p, MG_ATTR_##key);
#include "measure/parameters.def"
#undef MG_PARAMETER
    out->by_tanh = mg_prepared_text_is(p, MG_ATTR_APPROXIMATE, "tanh");
    out->by_fmod = number(p, MG_ATTR_FMOD);
    out->detect_negative = number(p, MG_ATTR_DETECT_NEGATIVE);
    out->detect_positive = number(p, MG_ATTR_DETECT_POSITIVE);
    out->correction1 = 1 - pow(number(p, MG_ATTR_BETA1), step);
    out->correction2 = 1 - pow(number(p, MG_ATTR_BETA2), step);
}
