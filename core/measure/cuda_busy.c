/* Who else uses the card: by the management library, where it is; else by memory that is neither free nor ours. */
#include <stdio.h>
#include <unistd.h>

#include "measure/cuda_priv.h"

enum { MOST_PROCESSES = 64, IDLE_PERCENT = 5 };
/* The library's utilisation is an average over up to a second before: for so long it holds what we did ourselves. */
static const double OWN_WORK_SEEN_S = 1.5;
/* What a context and its libraries take. */
static const uint64_t context_bytes = (uint64_t)3 << 29;

/* Where processes are numbered apart (containers), ours is not among those listed: then one unknown is taken for it. */
static unsigned strangers(const struct nvml_process *list, unsigned count)
{
    bool listed = false;
    for (unsigned i = 0; i < count; i++)
        listed = listed || list[i].pid == (unsigned)getpid();
    return listed || count == 0 ? count - listed : count - 1;
}

/* False: the library does not know. */
static bool ask_library(const struct cuda *cuda, double idle_s, bool *busy, char *why, size_t room)
{
    const struct nvml *nvml = &cuda->calls.nvml;
    struct nvml_process list[MOST_PROCESSES];
    struct nvml_utilisation rates = {0, 0};
    unsigned count = MOST_PROCESSES;
    bool known = cuda->part && nvml->processes(cuda->part, &count, list) == 0;
    if (known && strangers(list, count < MOST_PROCESSES ? count : MOST_PROCESSES) > 0) {
        *busy = true;
        snprintf(why, room, "other processes compute on it (%u in all)", count);
    } else if (known && idle_s > OWN_WORK_SEEN_S && nvml->utilisation(cuda->part, &rates) == 0 &&
               rates.gpu > IDLE_PERCENT) {
        *busy = true;
        snprintf(why, room, "it is in use, %u %% of the time", rates.gpu);
    }
    return known;
}

uint64_t mg_cuda_free_memory(struct mg_engine *engine)
{
    const struct cuda *cuda = engine->detail;
    size_t left = 0, whole = 0;
    return cuda->calls.driver.memory_info(&left, &whole) == 0 ? left : 0;
}

bool mg_cuda_is_busy(struct mg_engine *engine, double idle_s, char *why, size_t room)
{
    const struct cuda *cuda = engine->detail;
    size_t left = 0, whole = 0;
    bool busy = false;
    if (ask_library(cuda, idle_s, &busy, why, room))
        return busy;
    if (cuda->calls.driver.memory_info(&left, &whole) != 0 || whole < left)
        return false;
    uint64_t ours = engine->used_bytes + cuda->scratch_bytes + context_bytes, used = whole - left;
    if (used > ours)
        snprintf(why, room, "%llu MiB of its memory are in use by others", (unsigned long long)((used - ours) >> 20));
    return used > ours;
}
