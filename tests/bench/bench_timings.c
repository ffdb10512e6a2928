/* A worker's snapshot of 1,000,000 timings: opening it, and looking up in a random order. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/timings.h"

enum { ENTRIES = 1000000, LOOKUPS = 10000000 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int write_snapshot(size_t *size, struct mg_timing_entry *entries)
{
    struct mg_timings_content content = {.entries = entries, .entry_count = ENTRIES, .device_class = "bench"};
    FILE *file = tmpfile();
    int fd = file ? fileno(file) : -1;
    *size = mg_timings_size(&content);
    void *memory = fd >= 0 && ftruncate(fd, (off_t)*size) == 0
                       ? mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED)
        return -1;
    double start = now();
    mg_timings_fill(&content, memory);
    printf("timings snapshot written          %8.1f ms  (%zu MB)\n", (now() - start) * 1e3, *size / 1000000);
    munmap(memory, *size);
    return fd;
}

int main(void)
{
    struct mg_timing_entry *entries = calloc(ENTRIES, sizeof *entries), found;
    struct mg_timings timings;
    struct mg_error err;
    struct mg_rng rng;
    size_t size, hits = 0;
    mg_rng_init(&rng, 3);
    for (size_t i = 0; entries && i < ENTRIES; i++)
        entries[i] = (struct mg_timing_entry){{mg_rng_next(&rng), mg_rng_next(&rng)}, 1e-6, 0, MG_PRICE_EXACT};
    int fd = entries ? write_snapshot(&size, entries) : -1;
    double start = now();
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || mg_timings_open(memory, size, &timings, &err) != MG_OK) {
        printf("no snapshot\n");
        return 1;
    }
    printf("timings snapshot mapped           %8.3f ms  (wanted: < 10)\n", (now() - start) * 1e3);
    start = now();
    for (size_t i = 0; i < LOOKUPS; i++)
        hits += mg_timings_find(&timings, entries[mg_rng_below(&rng, ENTRIES)].key, &found);
    double seconds = now() - start;
    printf("timings looked up                 %8.1f million/s  (wanted: >= 5)%s\n", LOOKUPS / seconds / 1e6,
           hits == LOOKUPS ? "" : "  SOME MISSED");
    free(entries);
    return hits == LOOKUPS ? 0 : 1;
}
