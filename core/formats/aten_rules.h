/* One prototype for each rule that aten.def names. */
#ifndef MG_FORMATS_ATEN_RULES_H
#define MG_FORMATS_ATEN_RULES_H

#include "formats/aten_priv.h"

#define ATEN(name, overloads, rule, type, arguments) aten_rule aten_rule_##rule;
#include "formats/aten.def"
#undef ATEN

#endif
