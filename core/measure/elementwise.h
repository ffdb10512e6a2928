/* The numbers of one elementwise operator, for whatever makes its kernel. */
#ifndef MG_MEASURE_ELEMENTWISE_H
#define MG_MEASURE_ELEMENTWISE_H

#include "measure/measure_priv.h"

struct mg_expression {
#define MG_PARAMETER(name, key) double name;
#include "measure/parameters.def"
#undef MG_PARAMETER
    double power, by_tanh, by_fmod, detect_negative, detect_positive, correction1, correction2;
};
void mg_expression_of(const struct mg_prepared *p, struct mg_expression *out);

#endif
