/* What an operator costs, from the best that is known:
 *
 *   exact   measured in this device class
 *   near    measured on the same model of device with other software
 *   scaled  a part of an operator that was measured whole: model(part) x measured(whole) / model(whole);
 *           else the model times the lower median of at least three ratios measured / model of this kind of operator
 *   model   the analytic model alone
 *
 * Equal signatures have one price within a pricer, the first that was asked for: two operators may share a part. */
#ifndef MG_DEVICE_PRICER_H
#define MG_DEVICE_PRICER_H

#include "device/device.h"
#include "device/timings.h"

struct mg_quote {
    double seconds;
    uint64_t workspace; /* bytes, while the operator runs */
    enum mg_price_source source;
};
enum mg_timings_use { MG_TIMINGS_NEAR, MG_TIMINGS_MODEL, MG_TIMINGS_EXACT };

struct mg_pricer;

/* `timings` NULL: the model alone. Both must outlive the pricer. NULL: out of memory. */
struct mg_pricer *mg_pricer_new(const struct mg_device *device, const struct mg_timings *timings,
                                enum mg_timings_use use);
void mg_pricer_free(struct mg_pricer *pricer); /* NULL is fine */
/* `whole`: the operator of which this is a part, or NULL. A NULL pricer quotes the model of `device`, and so does one
 * that runs out of memory. */
struct mg_quote mg_pricer_quote(struct mg_pricer *pricer, const struct mg_device *device, const struct mg_op_desc *desc,
                                const struct mg_op_desc *whole);
/* Does it know more than the model? Otherwise `whole` need not be described. */
bool mg_pricer_measures(const struct mg_pricer *pricer);

#endif
