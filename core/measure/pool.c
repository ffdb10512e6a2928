/* Device memory that timed operators and programs take turns in (measure_priv.h). */
#include <math.h>

#include "measure/measure_priv.h"

enum { PAGE = 2 << 20, CACHES_KEPT = 4 };

/* Who was placed in it is not any more. */
static void give_back(struct mg_engine *engine)
{
    mg_engine_free(engine, MG_PLACE_DEVICE, engine->pool);
    engine->pool = NULL;
    engine->pool_bytes = 0;
    engine->pool_turn++;
}

static enum mg_code reserve(struct mg_engine *engine, uint64_t bytes, struct mg_error *err)
{
    void *memory;
    if (engine->pool_bytes >= bytes)
        return MG_OK;
    give_back(engine);
    enum mg_code code = mg_engine_alloc(engine, MG_PLACE_DEVICE, bytes, &memory, err);
    if (code != MG_OK)
        return code;
    engine->pool = memory;
    engine->pool_bytes = bytes;
    return MG_OK;
}

enum mg_code mg_pool_hold(struct mg_engine *engine, uint64_t bytes, struct mg_error *err)
{
    enum mg_code code = reserve(engine, bytes, err);
    if (code != MG_OK)
        return code;
    engine->pool_holders++;
    engine->pool_held = bytes > engine->pool_held ? bytes : engine->pool_held;
    return MG_OK;
}

void mg_pool_let_go(struct mg_engine *engine)
{
    if (--engine->pool_holders == 0)
        engine->pool_held = 0;
    mg_pool_trim(engine);
}

void mg_pool_trim(struct mg_engine *engine)
{
    uint64_t kept = CACHES_KEPT * engine->properties.cache_bytes;
    if (engine->pool_bytes > (kept > engine->pool_held ? kept : engine->pool_held))
        give_back(engine);
}

/* Multiples of the golden ratio: any few of them in a row are spread well. */
static uint64_t next_place(struct mg_engine *engine, uint64_t bytes)
{
    uint64_t pages = (engine->pool_bytes - bytes) / PAGE;
    double share = (double)++engine->pool_turn * 0.6180339887498949;
    return (uint64_t)((share - floor(share)) * (double)(pages + 1)) * PAGE;
}

enum mg_code mg_pool_take(struct mg_engine *engine, uint64_t bytes, void **out, struct mg_error *err)
{
    enum mg_code code = reserve(engine, bytes, err);
    *out = code ? NULL : (char *)engine->pool + next_place(engine, bytes);
    return code;
}
