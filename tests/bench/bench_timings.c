/* A worker's snapshot of 1,000,000 timings: opening it, and looking up in a random order: what is there, and what is
 * not. The file is written as the store does it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/timings.h"

enum { ENTRIES = 1000000, TURNS = 10 };

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
    void *memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    double start = now();
    madvise(memory, *size, MADV_HUGEPAGE);
    mg_timings_fill(&content, memory);
    if (write(fd, memory, *size) != (ssize_t)*size)
        return -1;
    printf("timings snapshot written          %8.1f ms  (%zu MB)\n", (now() - start) * 1e3, *size / 1000000);
    munmap(memory, *size);
    return fd;
}

static void shuffle(struct mg_hash128 *keys, struct mg_rng *rng)
{
    for (size_t i = ENTRIES; i > 1; i--) {
        size_t other = (size_t)mg_rng_below(rng, i);
        struct mg_hash128 key = keys[i - 1];
        keys[i - 1] = keys[other];
        keys[other] = key;
    }
}

static bool look_up(const struct mg_timings *timings, const struct mg_hash128 *keys, size_t wanted, const char *what)
{
    struct mg_timing_entry found;
    size_t hits = 0;
    double start = now();
    for (size_t turn = 0; turn < TURNS; turn++)
        for (size_t i = 0; i < ENTRIES; i++)
            hits += mg_timings_find(timings, keys[i], &found);
    printf("timings looked up, %s  %8.1f million/s  (wanted: >= 5)%s\n", what,
           (double)TURNS * ENTRIES / (now() - start) / 1e6, hits == TURNS * wanted ? "" : "  SOME MISSED");
    return hits == TURNS * wanted;
}

int main(void)
{
    struct mg_timing_entry *entries = calloc(ENTRIES, sizeof *entries);
    struct mg_hash128 *keys = calloc(ENTRIES, sizeof *keys);
    struct mg_timings timings;
    struct mg_error err;
    struct mg_rng rng;
    size_t size;
    mg_rng_init(&rng, 3);
    for (size_t i = 0; entries && keys && i < ENTRIES; i++) {
        keys[i] = (struct mg_hash128){mg_rng_next(&rng), mg_rng_next(&rng)};
        entries[i] = (struct mg_timing_entry){keys[i], 1e-6, 0, MG_PRICE_EXACT};
    }
    int fd = entries && keys ? write_snapshot(&size, entries) : -1;
    double start = now();
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED || mg_timings_open(memory, size, &timings, &err) != MG_OK) {
        printf("no snapshot\n");
        return 1;
    }
    printf("timings snapshot mapped           %8.3f ms  (wanted: < 10)\n", (now() - start) * 1e3);
    shuffle(keys, &rng);
    bool good = look_up(&timings, keys, ENTRIES, "known  ");
    for (size_t i = 0; i < ENTRIES; i++)
        keys[i] = (struct mg_hash128){mg_rng_next(&rng), mg_rng_next(&rng)};
    good = look_up(&timings, keys, 0, "unknown") && good;
    free(entries);
    free(keys);
    return good ? 0 : 1;
}
