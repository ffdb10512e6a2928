/* GET /jobs: filters, sorting, and paging by keyset.
 *
 * A cursor holds sort key and number of the last row shown, so that a page is a range of an index and rows that come
 * in meanwhile shift nothing. It also holds a hash of filters and sort: with others it is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "store/store_priv.h"

enum { CURSOR_LEN = 48 };

/* A growing text. */
struct text {
    struct mg_arena *arena;
    char *data;
    size_t size, capacity;
};

static void put(struct text *text, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *MG_PUSH(text->arena, text->data, text->size, text->capacity) = bytes[i];
    }
}

static const char *text_end(struct text *text)
{
    put(text, "", 1);
    return text->data;
}

static void put_json(struct text *text, const char *string)
{
    put(text, "\"", 1);
    for (const char *c = string; *c; c++) {
        char escaped[8];
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\') {
            put(text, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*c));
        } else {
            put(text, c, 1);
        }
    }
    put(text, "\"", 1);
}

static const char *states_json(struct mg_op *op, uint32_t states)
{
    struct text text = {.arena = &op->arena};
    if (!states) {
        return NULL;
    }
    put(&text, "[", 1);
    for (int i = 0; i < MG_JOB_STATES; i++) {
        if (states & (1u << i)) {
            put(&text, ",", text.size > 1);
            put_json(&text, mg_job_state_name((enum mg_job_state)i));
        }
    }
    put(&text, "]", 1);
    return text_end(&text);
}

static const char *labels_json(struct mg_op *op, const struct mg_store_query *query)
{
    struct text text = {.arena = &op->arena};
    if (query->n_labels == 0) {
        return NULL;
    }
    put(&text, "[", 1);
    for (size_t i = 0; i < query->n_labels; i++) {
        put(&text, ",", i > 0);
        put(&text, "[", 1);
        put_json(&text, query->labels[i].key);
        put(&text, ",", 1);
        put_json(&text, query->labels[i].value);
        put(&text, "]", 1);
    }
    put(&text, "]", 1);
    return text_end(&text);
}

static const char *like_pattern(struct mg_op *op, const char *q)
{
    struct text text = {.arena = &op->arena};
    if (!q || !q[0]) {
        return NULL;
    }
    put(&text, "%", 1);
    for (; *q; q++) {
        put(&text, "\\", *q == '%' || *q == '_' || *q == '\\');
        put(&text, q, 1);
    }
    put(&text, "%", 1);
    return text_end(&text);
}

static uint64_t query_hash(struct mg_op *op, const struct mg_store_query *query, const char *states, const char *labels)
{
    const char *parts[] = {states, labels, query->network, query->device, query->owner, query->q};
    struct text text = {.arena = &op->arena};
    char order[2] = {(char)('0' + query->sort), query->reverse ? 'r' : 'f'};
    put(&text, order, sizeof order);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        put(&text, parts[i] ? "+" : "-", 1);
        put(&text, parts[i] ? parts[i] : "", (parts[i] ? strlen(parts[i]) : 0) + 1);
    }
    return mg_hash_bytes(text.data, text.size, 0).lo;
}

static bool ascending(const struct mg_store_query *query)
{
    return (query->sort == MG_SORT_PEAK) != query->reverse;
}

static uint64_t hex_part(const char *cursor, int part)
{
    char digits[CURSOR_LEN / 3 + 1] = {0};
    memcpy(digits, cursor + part * CURSOR_LEN / 3, CURSOR_LEN / 3);
    return strtoull(digits, NULL, 16);
}

static bool read_cursor(const char *cursor, uint64_t hash, int64_t *key, int64_t *number)
{
    if (strlen(cursor) != CURSOR_LEN || strspn(cursor, "0123456789abcdef") != CURSOR_LEN ||
        hex_part(cursor, 0) != hash) {
        return false;
    }
    *key = (int64_t)hex_part(cursor, 1);
    *number = (int64_t)hex_part(cursor, 2);
    return true;
}

/* Reads up to `limit` rows and one more, which tells whether there is a next page. */
static void read_page(struct mg_op *op, struct mg_db *db, sqlite3_stmt *stmt, int limit, uint64_t hash)
{
    struct mg_store_job *jobs = MG_NEW_ARRAY(&op->arena, struct mg_store_job, limit);
    int key_column = sqlite3_column_count(stmt) - 1;
    int64_t key = 0;
    size_t n = 0;
    while (mg_db_row(db, stmt)) {
        if (n == (size_t)limit) {
            op->result.next = mg_arena_printf(&op->arena, "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, hash,
                                              (uint64_t)key, (uint64_t)jobs[n - 1].number);
            mg_db_end(stmt);
            break;
        }
        key = sqlite3_column_int64(stmt, key_column);
        mg_job_read(op, stmt, &jobs[n++]);
    }
    op->result.jobs = jobs;
    op->result.n_jobs = n;
}

void mg_op_run_list_jobs(struct mg_op *op, struct mg_db *db)
{
    const struct mg_store_query *q = op->args.query;
    const char *states = states_json(op, q->states), *labels = labels_json(op, q);
    uint64_t hash = query_hash(op, q, states, labels);
    int64_t key = ascending(q) ? INT64_MIN : INT64_MAX, number = key;
    if (q->limit < 1 || q->limit > 200) {
        mg_op_fail(op, MG_STORE_INVALID, "limit is 1 to 200");
        return;
    }
    if (q->cursor && !read_cursor(q->cursor, hash, &key, &number)) {
        mg_op_fail(op, MG_STORE_INVALID, "the cursor belongs to another query");
        return;
    }
    const struct mg_store_label *first = q->n_labels ? &q->labels[0] : NULL;
    enum mg_stmt which =
        (enum mg_stmt)(MG_STMT_LIST_CREATED + (int)q->sort * 4 + (q->reverse ? 2 : 0) + (first ? 1 : 0));
    const struct mg_val values[] = {mg_int(key),
                                    mg_int(number),
                                    mg_int(q->limit + 1),
                                    mg_text(states),
                                    mg_text(labels),
                                    mg_text(q->network),
                                    mg_text(q->device),
                                    mg_text(q->owner),
                                    mg_text(like_pattern(op, q->q)),
                                    mg_text(first ? first->key : NULL),
                                    mg_text(first ? first->value : NULL)};
    read_page(op, db, mg_db_bind(db, which, values, sizeof values / sizeof *values), q->limit, hash);
}
