/* One SQLite connection: prepared statements, errors that stick, and the mapping of SQLite's codes.
 *
 * All statements are prepared when the connection opens (SQLITE_PREPARE_PERSISTENT), so a schema that does not fit
 * them is found at once. A statement is always reset and cleared at its end: a SELECT left open would keep the
 * write-ahead log growing. */
#include <stdio.h>
#include <string.h>

#include "store/store_priv.h"

static const struct {
    const char *name;
    int where;
    const char *sql;
} statements[] = {
#define STMT(name, where, sql) {#name, where, sql},
#include "store/statements.def"
#undef STMT
};

enum mg_store_code mg_db_map(int extended)
{
    switch (extended & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return MG_STORE_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return MG_STORE_BUSY;
    case SQLITE_FULL:
        return MG_STORE_FULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return MG_STORE_IO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return MG_STORE_CORRUPT;
    case SQLITE_CONSTRAINT:
        return extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY ? MG_STORE_CONFLICT
                                                                                                : MG_STORE_INVALID;
    case SQLITE_TOOBIG:
        return MG_STORE_INVALID;
    default:
        return MG_STORE_INTERNAL;
    }
}

/* What the machine around the database did, in words; NULL: the message of SQLite says it best. */
static const char *words(const struct mg_db *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return "the store cannot be written: its file or file system is read-only, or belongs to another user";
    case SQLITE_CANTOPEN:
        return "the store cannot be opened: look at the owner and the permissions of the directory and its files";
    case SQLITE_FULL:
        return "the disk of the store is full";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another process holds the store";
    case SQLITE_IOERR:
        return db->handle && sqlite3_system_errno(db->handle) ? strerror(sqlite3_system_errno(db->handle)) : NULL;
    default:
        return NULL;
    }
}

enum mg_store_code mg_db_fail(struct mg_db *db, int rc, const char *what)
{
    if (db->code != MG_STORE_OK) {
        return db->code;
    }
    int extended = db->handle ? sqlite3_extended_errcode(db->handle) : rc;
    if ((extended & 0xff) != (rc & 0xff)) {
        extended = rc;
    }
    db->code = mg_db_map(extended);
    const char *plain = words(db, extended);
    bool ours = db->code >= MG_STORE_CLOSED; /* a bug is looked for by its statement */
    snprintf(db->message, sizeof db->message, "%s (%d)%s%.100s",
             plain        ? plain
             : db->handle ? sqlite3_errmsg(db->handle)
                          : sqlite3_errstr(rc),
             extended, ours ? " in " : "", ours ? what : "");
    return db->code;
}

void mg_db_clear(struct mg_db *db)
{
    db->code = MG_STORE_OK;
    db->message[0] = 0;
}

enum mg_store_code mg_db_exec(struct mg_db *db, const char *sql)
{
    if (db->code != MG_STORE_OK) {
        return db->code;
    }
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? MG_STORE_OK : mg_db_fail(db, rc, sql);
}

int64_t mg_db_pragma(struct mg_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;
    if (db->code != MG_STORE_OK) {
        return 0;
    }
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        value = sqlite3_column_int64(stmt, 0);
    } else if (rc != SQLITE_DONE) {
        mg_db_fail(db, rc, sql);
    }
    sqlite3_finalize(stmt);
    return value;
}

static int on_commit(void *context, sqlite3 *handle, const char *name, int pages)
{
    struct mg_db *db = context;
    (void)handle;
    (void)name;
    db->log_pages = pages;
    return SQLITE_OK;
}

static void configure(struct mg_db *db)
{
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, 2000);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (db->role == MG_DB_READER) {
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        mg_db_exec(db, "PRAGMA query_only = 1; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -16000");
    } else {
        /* auto_vacuum counts only before the first table, so it comes first. */
        mg_db_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;"
                       "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16000");
        sqlite3_wal_hook(db->handle, on_commit, db); /* instead of checkpoints within commits */
    }
}

enum mg_store_code mg_db_open(struct mg_db *db, const char *path, int role)
{
    int flags = role == MG_DB_READER ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    db->role = role;
    db->synced = true;
    int rc = sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (rc != SQLITE_OK) {
        return mg_db_fail(db, rc, "open");
    }
    configure(db);
    return db->code;
}

enum mg_store_code mg_db_prepare(struct mg_db *db)
{
    for (int i = 0; i < MG_STMT_COUNT && db->code == MG_STORE_OK; i++) {
        if (!(statements[i].where & db->role)) {
            continue;
        }
        int rc = sqlite3_prepare_v3(db->handle, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[i], NULL);
        if (rc != SQLITE_OK) {
            mg_db_fail(db, rc, statements[i].name);
        }
    }
    return db->code;
}

void mg_db_close(struct mg_db *db)
{
    for (int i = 0; i < MG_STMT_COUNT; i++) {
        sqlite3_finalize(db->stmts[i]);
        db->stmts[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
}

static int bind_value(sqlite3_stmt *stmt, int at, const struct mg_val *value)
{
    switch (value->type) {
    case MG_VAL_TEXT:
        return sqlite3_bind_text(stmt, at, value->u.text, -1, SQLITE_STATIC);
    case MG_VAL_INT:
        return sqlite3_bind_int64(stmt, at, value->u.integer);
    case MG_VAL_REAL:
        return sqlite3_bind_double(stmt, at, value->u.real);
    case MG_VAL_BLOB:
        return value->u.blob.size ? sqlite3_bind_blob64(stmt, at, value->u.blob.data, value->u.blob.size, SQLITE_STATIC)
                                  : sqlite3_bind_zeroblob(stmt, at, 0);
    default:
        return sqlite3_bind_null(stmt, at);
    }
}

sqlite3_stmt *mg_db_bind(struct mg_db *db, enum mg_stmt id, const struct mg_val *values, size_t n)
{
    sqlite3_stmt *stmt = db->stmts[id];
    for (size_t i = 0; i < n && db->code == MG_STORE_OK; i++) {
        int rc = bind_value(stmt, (int)i + 1, &values[i]);
        if (rc != SQLITE_OK) {
            mg_db_fail(db, rc, statements[id].name);
        }
    }
    return stmt;
}

void mg_db_end(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

/* What a full or failing disk does: SQLite gives the whole transaction up. */
static void simulate(struct mg_db *db, enum mg_store_code code, const char *what)
{
    db->code = code;
    snprintf(db->message, sizeof db->message, "simulated fault at %s", what);
    if (code == MG_STORE_FULL || code == MG_STORE_IO) {
        mg_db_rollback(db);
    }
}

bool mg_db_row(struct mg_db *db, sqlite3_stmt *stmt)
{
    if (db->code == MG_STORE_OK && db->fault) {
        enum mg_store_code code = db->fault(db->fault_ctx, sqlite3_sql(stmt));
        if (code != MG_STORE_OK) {
            mg_db_end(stmt);
            simulate(db, code, sqlite3_sql(stmt));
            return false;
        }
    }
    int rc = db->code == MG_STORE_OK ? sqlite3_step(stmt) : SQLITE_DONE;
    if (rc == SQLITE_ROW) {
        return true;
    }
    if (rc != SQLITE_DONE) {
        mg_db_fail(db, rc, sqlite3_sql(stmt));
    }
    mg_db_end(stmt);
    return false;
}

int64_t mg_db_run(struct mg_db *db, enum mg_stmt id, const struct mg_val *values, size_t n)
{
    sqlite3_stmt *stmt = mg_db_bind(db, id, values, n);
    while (mg_db_row(db, stmt)) {
    }
    return db->code == MG_STORE_OK ? sqlite3_changes64(db->handle) : 0;
}

void mg_db_checkpoint(struct mg_db *db)
{
    db->log_pages = 0; /* what a reader holds back is tried again after the next commit */
    sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

void mg_db_rollback(struct mg_db *db)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    }
}

int mg_db_tidy(struct mg_db *db)
{
    int open = 0;
    for (int i = 0; i < MG_STMT_COUNT; i++) {
        if (db->stmts[i] && sqlite3_stmt_busy(db->stmts[i])) {
            open++;
            mg_db_end(db->stmts[i]);
        }
    }
    if (!sqlite3_get_autocommit(db->handle)) {
        open++;
        mg_db_rollback(db);
    }
    return open;
}
