/* More wants of timings than there may be: who makes room, and what comes back. */
#include "timings_util.h"

/* As many wants of the card as there may be, number n worth n, of which the class knows the last `settled`; the first
 * is all of the graph "old". */
static void fill_wants(int settled)
{
    const struct mg_timing_row row = row_of(0, "x", 1e-3);
    char path[128], sql[1600];
    sqlite3 *db;
    post("one", "t", "b1", &row, 1);
    mg_store_close(f.store);
    snprintf(path, sizeof path, "%s/store.db", f.dir);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    snprintf(
        sql, sizeof sql,
        "BEGIN; CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT i FROM n;"
        "INSERT INTO timing_signatures (id, key, op, text) SELECT 10 + i, CAST(printf('%%016d', i) AS BLOB), 'add',"
        " 'n' || i FROM n;"
        "INSERT INTO timing_wants SELECT 'card', 10 + i, i, 1e-3 FROM n;"
        "INSERT INTO timing_rows (batch, row, family, class, signature, agent, status, n, median_s, mad_s, min_s,"
        " workspace, model_s, clock_mhz, throttled, at, valid_from) SELECT 1, i, 1, 1, 10 + i, 1, 0, 9, 1, 0, 1, 0, 1,"
        " 0, 0, 1, 1 FROM n WHERE i > %d;"
        "INSERT INTO timing_graphs SELECT 'old', '[\"card\"]', x'0b00000000000000'; COMMIT",
        MG_TIMING_WANTS, MG_TIMING_WANTS - settled);
    char *problem = NULL;
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &problem), SQLITE_OK, "%s", problem);
    sqlite3_close(db);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void setup(void)
{
    fixture_init(&f);
    cr_assert_eq(fixture_open(&f), MG_STORE_OK, "%s", f.got.message);
}

static void teardown(void)
{
    fixture_release(&f);
}

TestSuite(store_wants, .init = setup, .fini = teardown);

static const struct mg_timing_want late[] = {{"add", "dear", {1, 1}, 1e9, 1e-3, true},
                                             {"add", "cheap", {2, 2}, 0.5, 1e-3, true}};

Test(store_wants, what_is_settled_makes_room)
{
    enum { SETTLED = 30000, LEFT = MG_TIMING_WANTS - SETTLED };
    fill_wants(SETTLED);
    cr_expect(ASK(pick_class, "old", "[\"card\"]")->known_graph);
    ASK(add_wants, "new", "[\"card\"]", late, 2);
    cr_expect_eq(ASK(list_missing, CLASS, NULL, MG_TIMING_WANTS)->n_wants, LEFT + 2, "nothing open is forgotten");
    cr_expect_str_eq(got.first, "dear");
    cr_expect_str_eq(got.last, "cheap");
    cr_expect(ASK(pick_class, "new", "[\"card\"]")->known_graph);
    cr_expect(ASK(pick_class, "old", "[\"card\"]")->known_graph);
    mg_store_list_classes(f.store, on_timings, &got);
    cr_expect(asked()->wanted < LEFT + SETTLED / 2, "%lld", (long long)got.wanted);
}

Test(store_wants, then_what_is_worth_least)
{
    enum { TENTH = MG_TIMING_WANTS / 10 };
    fill_wants(0);
    ASK(add_wants, "new", "[\"card\"]", late, 2);
    size_t left = ASK(list_missing, CLASS, NULL, MG_TIMING_WANTS)->n_wants;
    cr_expect(left <= 9 * TENTH + 2 && left > 8 * TENTH, "%zu", left);
    cr_expect_str_eq(got.first, "dear");
    cr_expect_str_eq(got.last, "cheap", "what comes goes in, whatever it is worth");
    cr_expect(ASK(pick_class, "new", "[\"card\"]")->known_graph);
    cr_expect(!ASK(pick_class, "old", "[\"card\"]")->known_graph, "what had to go is not known");
    const struct mg_timing_want again[] = {{"add", "n1", {0x3030303030303030, 0x3130303030303030}, 1, 1e-3, true}};
    ASK(add_wants, "old", "[\"card\"]", again, 1);
    cr_expect(ASK(pick_class, "old", "[\"card\"]")->known_graph);
}
