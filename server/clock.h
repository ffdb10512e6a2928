/* What time it is. */
#ifndef MG_SERVER_CLOCK_H
#define MG_SERVER_CLOCK_H

#include <stdint.h>

/* Milliseconds since 1970, as the store keeps them. */
int64_t mg_clock_wall_ms(void);
/* Seconds of a clock that nobody sets. */
double mg_clock_seconds(void);

#endif
