/* Snapshots: the values of one class as of one generation, in the form that workers map (core/device/timings.h).
 *
 * The value of a signature is the lower median of the newest valid rows of at most five agents; where the class has
 * none, the newest row of another class of the same model stands in, as "near". One ordered scan makes all of them. */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/timings.h"
#include "store_priv.h"

struct sampled {
    const char *op;
    size_t count;
};
struct scan {
    struct mg_op *op;
    int64_t class;
    /* the signature at hand */
    int64_t signature;
    struct mg_timing_entry entry;
    const char *name, *text;
    double medians[MG_TIMING_LATEST];
    int64_t agents[MG_TIMING_LATEST];
    size_t count;
    bool has_near;
    double near_s;
    uint64_t near_workspace;
    /* what comes out */
    struct mg_timing_entry *entries;
    size_t entry_count, entry_capacity;
    struct mg_timing_sample *samples;
    size_t sample_count, sample_capacity;
    struct sampled *sampled;
    size_t sampled_count, sampled_capacity;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool wants_sample(struct scan *s, const char *op)
{
    for (size_t i = 0; i < s->sampled_count; i++) {
        if (strcmp(s->sampled[i].op, op) == 0) {
            return s->sampled[i].count++ < MG_TIMINGS_SAMPLES;
        }
    }
    *MG_PUSH(&s->op->arena, s->sampled, s->sampled_count, s->sampled_capacity) =
        (struct sampled){mg_arena_strdup(&s->op->arena, op), 1};
    return true;
}

static void end_signature(struct scan *s)
{
    if (s->count > 0) {
        qsort(s->medians, s->count, sizeof s->medians[0], by_value);
        s->entry.seconds = s->medians[(s->count - 1) / 2];
        s->entry.source = MG_PRICE_EXACT;
    } else if (s->has_near) {
        s->entry.seconds = s->near_s;
        s->entry.workspace = s->near_workspace;
        s->entry.source = MG_PRICE_NEAR;
    } else {
        return;
    }
    *MG_PUSH(&s->op->arena, s->entries, s->entry_count, s->entry_capacity) = s->entry;
    if (s->text) {
        *MG_PUSH(&s->op->arena, s->samples, s->sample_count, s->sample_capacity) =
            (struct mg_timing_sample){s->name, s->text, s->entry.seconds, s->entry.source};
    }
}

static void begin_signature(struct scan *s, sqlite3_stmt *stmt)
{
    const char *op = (const char *)sqlite3_column_text(stmt, 2);
    uint64_t key[2];
    memcpy(key, sqlite3_column_blob(stmt, 1), sizeof key);
    bool sample = wants_sample(s, op);
    s->signature = sqlite3_column_int64(stmt, 0);
    s->entry = (struct mg_timing_entry){.key = {key[0], key[1]}};
    s->name = sample ? mg_op_column(s->op, stmt, 2) : NULL;
    s->text = sample ? mg_op_column(s->op, stmt, 3) : NULL;
    s->count = 0;
    s->has_near = false;
}

/* Rows of a signature come newest first. */
static void take_row(struct scan *s, sqlite3_stmt *stmt)
{
    double median = sqlite3_column_double(stmt, 6);
    uint64_t workspace = (uint64_t)sqlite3_column_int64(stmt, 7);
    int64_t agent = sqlite3_column_int64(stmt, 5);
    if (sqlite3_column_int64(stmt, 4) != s->class) {
        if (!s->has_near) {
            s->has_near = true;
            s->near_s = median;
            s->near_workspace = workspace;
        }
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->agents[i] == agent) {
            return;
        }
    }
    if (s->count == MG_TIMING_LATEST) {
        return;
    }
    s->entry.workspace = s->count == 0 ? workspace : s->entry.workspace;
    s->agents[s->count] = agent;
    s->medians[s->count++] = median;
}

static void scan_rows(struct scan *s, struct mg_db *db, int64_t family, int64_t generation)
{
    sqlite3_stmt *stmt = MG_BIND(db, SCAN, mg_int(family), mg_int(generation));
    s->signature = -1;
    while (mg_db_row(db, stmt)) {
        if (sqlite3_column_int64(stmt, 0) != s->signature) {
            end_signature(s);
            begin_signature(s, stmt);
        }
        take_row(s, stmt);
    }
    end_signature(s);
}

/* ---- the file ---- */

/* From the file's start; its position stays. */
static bool write_all(int fd, const char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = pwrite(fd, data + at, size - at, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* False: errno says why. Made in memory and written at once: file systems that can then keep it in large pages, which
 * look-ups at random places want. */
static bool fill_file(struct mg_timings_content *content, int fd)
{
    size_t size = mg_timings_size(content);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    madvise(memory, size, MADV_HUGEPAGE);
    mg_timings_fill(content, memory);
    bool good = write_all(fd, memory, size);
    int problem = errno;
    munmap(memory, size);
    errno = problem;
    return good;
}

/* Returns the file, open for reading, or -1. */
static int write_file(struct mg_timings_content *content, const char *path)
{
    char beside[4200];
    snprintf(beside, sizeof beside, "%s.new", path);
    int fd = open(beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    bool good = fill_file(content, fd) && rename(beside, path) == 0;
    int problem = errno;
    close(fd);
    if (!good) {
        unlink(beside);
        errno = problem;
    }
    return good ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static int write_memory(struct mg_timings_content *content)
{
    int fd = memfd_create("timings", MFD_CLOEXEC);
    if (fd >= 0 && !fill_file(content, fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Workers that run have theirs open; what is asked for again is made again. Whoever has the lock is alone here: what
 * else is left was begun by one that was killed. */
static void remove_others(const char *dir, const char *prefix, const char *keep)
{
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list));) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strcmp(e->d_name, keep) != 0) {
            unlinkat(dirfd(list), e->d_name, 0);
        }
    }
    if (list) {
        closedir(list);
    }
}

/* Returns the file, or -1 with the operation failed. */
static int make_snapshot(struct mg_op *op, struct mg_db *db, int64_t class, const char *path)
{
    struct scan s = {.op = op, .class = class};
    int64_t family = mg_timing_number(db, MG_BIND(db, CLASS_FAMILY, mg_int(class)), 0);
    scan_rows(&s, db, family, op->args.number);
    struct mg_timings_content content = {
        s.entries, s.entry_count, s.samples, s.sample_count, (uint64_t)op->args.number, op->args.id};
    if (!mg_op_ok(op, db)) {
        return -1;
    }
    int fd = op->store->config.read_only ? write_memory(&content) : write_file(&content, path);
    if (fd < 0) {
        mg_op_fail(op, errno == ENOSPC ? MG_STORE_FULL : MG_STORE_IO, "%s: %s", path, strerror(errno));
    }
    return fd;
}

void mg_op_run_snapshot(struct mg_op *op, struct mg_db *db)
{
    char *dir = mg_arena_printf(&op->arena, "%s/cache", op->store->dir);
    char *prefix = mg_arena_printf(&op->arena, "timings-%s-", op->args.id);
    char *name = mg_arena_printf(&op->arena, "%s%lld.snap", prefix, (long long)op->args.number);
    char *path = mg_arena_printf(&op->arena, "%s/%s", dir, name);
    int64_t class = mg_timing_number(db, MG_BIND(db, CLASS_BY_HASH, mg_text(op->args.id)), 0);
    if (class == 0) {
        mg_op_fail(op, MG_STORE_NOT_FOUND, "there is no device class %s", op->args.id);
        return;
    }
    op->args.fd = open(path, O_RDONLY | O_CLOEXEC); /* closed with the operation */
    if (op->args.fd < 0 && !op->store->config.read_only) {
        mkdir(dir, 0700);
        op->args.fd = make_snapshot(op, db, class, path);
        remove_others(dir, prefix, name);
    } else if (op->args.fd < 0) {
        op->args.fd = make_snapshot(op, db, class, path);
    }
    op->result.fd = op->args.fd;
}
