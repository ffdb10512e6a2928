/* Opening and closing DIR: lock, file system, the check after an unclean stop, backup and migration.
 *
 * Exactly one connection of one process writes and checkpoints (SQLite up to 3.51.2 can damage a file when two do at
 * the same instant): DIR/lock is held by flock for as long as the store is open. Whether the last stop was clean is
 * written in the file itself: the row `clean` of meta is 0 while a daemon has the store open. Who only reads takes
 * no part in all that. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "store/owner.h"
#include "store/store_priv.h"

struct why {
    char *message;
    size_t size;
};

static enum mg_store_code because(const struct why *why, enum mg_store_code code, const char *fmt, ...) MG_PRINTF(3, 4);
static enum mg_store_code because(const struct why *why, enum mg_store_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (why->size) {
        vsnprintf(why->message, why->size, fmt, args);
    }
    va_end(args);
    return code;
}

static char *text_of(const char *fmt, ...) MG_PRINTF(1, 2);
static char *text_of(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0) {
        abort();
    }
    va_end(args);
    return text;
}

/* ---- where the file lies ---- */

bool mg_store_fs_is_network(long type, const char *fuse_type)
{
    static const uint32_t magic[] = {0x6969 /* nfs */,        0x517b /* smb */,      0xff534d42 /* cifs */,
                                     0xfe534d42 /* smb2 */,   0x5346414f /* afs */,  0x00c36400 /* ceph */,
                                     0x73757245 /* coda */,   0x564c /* ncp */,      0x01021997 /* 9p */,
                                     0x0bd00bd0 /* lustre */, 0x47504653 /* gpfs */, 0x7461636f /* ocfs2 */};
    static const char *const fuse[] = {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.ceph"};
    for (size_t i = 0; i < sizeof magic / sizeof *magic; i++) {
        if ((uint32_t)type == magic[i]) {
            return true;
        }
    }
    for (size_t i = 0; fuse_type && i < sizeof fuse / sizeof *fuse; i++) {
        if (strncmp(fuse_type, fuse[i], strlen(fuse[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The type field of the mount that holds `dev` ("fuse.sshfs"); false: not found. */
static bool mount_type(dev_t dev, char *type, size_t size)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[4096], device[32];
    bool found = false;
    snprintf(device, sizeof device, " %u:%u ", major(dev), minor(dev));
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *dash = strstr(line, " - ");
        if (dash && strstr(line, device)) {
            snprintf(type, size, "%.*s", (int)strcspn(dash + 3, " \n"), dash + 3);
            found = true;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

static enum mg_store_code check_dir(const mg_store *store, const struct why *why)
{
    struct statfs fs;
    struct stat st;
    char type[64] = "";
    if (!store->config.read_only && mkdir(store->dir, 0700) != 0 && errno != EEXIST) {
        return because(why, MG_STORE_IO, "cannot make %s: %s", store->dir, strerror(errno));
    }
    if (statfs(store->dir, &fs) != 0 || stat(store->dir, &st) != 0) {
        return because(why, MG_STORE_IO, "cannot look at %s: %s", store->dir, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return because(why, MG_STORE_IO, "%s is not a directory", store->dir);
    }
    mount_type(st.st_dev, type, sizeof type);
    if (mg_store_fs_is_network((long)fs.f_type, type)) {
        return because(why, MG_STORE_NETWORK, "%s is on a network file system, where locks and the log are not safe",
                       store->dir);
    }
    return MG_STORE_OK;
}

/* What a daemon that ran as another user has made: said before anything is tried on it. Profiles and tokens may be
 * somebody else's, who puts them there: serving reads them. */
static enum mg_store_code check_owners(const mg_store *store, const struct why *why)
{
    static const struct {
        const char *name;
        int need;
    } files[] = {{"lock", R_OK | W_OK},
                 {"store.db", R_OK | W_OK},
                 {"store.db-wal", R_OK | W_OK},
                 {"store.db-shm", R_OK | W_OK},
                 {"cache", R_OK | W_OK},
                 {"spool", R_OK | W_OK},
                 {"devices", R_OK},
                 {"tokens.json", R_OK}};
    char text[4400];
    bool foreign = false;
    for (size_t i = 0; !foreign && i < sizeof files / sizeof *files; i++) {
        char *path = text_of("%s/%s", store->dir, files[i].name);
        foreign = mg_owner_explain(path, files[i].need, text, sizeof text);
        free(path);
    }
    return !foreign ? MG_STORE_OK
                    : because(why, MG_STORE_IO,
                              "%s: run this as that user, or as root make the directory this one's (chown -R %lu %s)",
                              text, (unsigned long)geteuid(), store->dir);
}

static enum mg_store_code take_lock(mg_store *store, const struct why *why)
{
    char *path = text_of("%s/lock", store->dir), owner[32] = "";
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    if (store->lock_fd < 0) {
        return because(why, MG_STORE_IO, "cannot open the lock %s/lock: %s", store->dir, strerror(errno));
    }
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(store->lock_fd, owner, sizeof owner - 1, 0);
        owner[n > 0 ? strcspn(owner, "\n") : 0] = 0;
        return because(why, MG_STORE_LOCKED, "%s is in use by another magisd (process %s has %s/lock)", store->dir,
                       owner, store->dir);
    }
    int n = snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
    if (ftruncate(store->lock_fd, 0) != 0 || pwrite(store->lock_fd, owner, (size_t)n, 0) != n) {
        return because(why, errno == ENOSPC ? MG_STORE_FULL : MG_STORE_IO, "cannot write the lock of %s: %s",
                       store->dir, strerror(errno));
    }
    return MG_STORE_OK;
}

/* ---- versions ---- */

static void sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static void backup_to(struct mg_db *db, const char *path)
{
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", path);
    if (!sql) {
        abort();
    }
    mg_db_exec(db, sql);
    sqlite3_free(sql);
    sync_path(path);
}

static void apply_step(struct mg_db *db, const char *sql, int version)
{
    char numbers[96];
    snprintf(numbers, sizeof numbers, "PRAGMA user_version = %d; PRAGMA application_id = %d", version,
             MG_STORE_APPLICATION_ID);
    mg_db_exec(db, "BEGIN IMMEDIATE");
    mg_db_exec(db, sql);
    mg_db_exec(db, numbers);
    mg_db_exec(db, "COMMIT");
    mg_db_rollback(db);
}

enum mg_store_code mg_store_migrate(struct mg_db *db, const char *const *steps, int n, const char *backup)
{
    int version = (int)mg_db_pragma(db, "PRAGMA user_version");
    if (version > 0 && version < n && backup) {
        backup_to(db, backup);
    }
    for (; version < n && db->code == MG_STORE_OK; version++) {
        apply_step(db, steps[version], version + 1);
    }
    return db->code;
}

/* Why the file cannot be used, and what to do about a damaged one. */
static enum mg_store_code refused(const mg_store *store, enum mg_store_code code, const char *message,
                                  const struct why *why)
{
    if (code != MG_STORE_CORRUPT) {
        return because(why, code, "%s: %s", store->path, message);
    }
    return because(
        why, code,
        "%s is damaged: move it and its -wal and -shm files away and start again (empty), or first put a copy "
        "of yours or one from %s/backup in its place (%s)",
        store->path, store->dir, message);
}

static enum mg_store_code check_version(mg_store *store, struct mg_db *db, const struct why *why)
{
    int64_t id = mg_db_pragma(db, "PRAGMA application_id"), version = mg_db_pragma(db, "PRAGMA user_version");
    int64_t tables = mg_db_pragma(db, "SELECT count(*) FROM sqlite_schema");
    if (db->code != MG_STORE_OK) {
        return refused(store, db->code, db->message, why);
    }
    if (tables > 0 && id != MG_STORE_APPLICATION_ID) {
        return because(why, MG_STORE_VERSION, "%s is not a database of magisd", store->path);
    }
    if (version > mg_store_version) {
        return because(why, MG_STORE_VERSION, "%s has version %d, this magisd knows %d: use the newer program",
                       store->path, (int)version, mg_store_version);
    }
    return MG_STORE_OK;
}

static enum mg_store_code migrate(mg_store *store, const struct why *why)
{
    struct mg_db *db = &store->writer;
    char *dir = text_of("%s/backup", store->dir);
    int version = (int)mg_db_pragma(db, "PRAGMA user_version");
    char *backup = text_of("%s/store-v%d-%lld.db", dir, version, (long long)mg_store_now(store));
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        because(why, MG_STORE_IO, "cannot make %s: %s", dir, strerror(errno));
        db->code = MG_STORE_IO;
    } else if (mg_store_migrate(db, mg_store_migrations, mg_store_version, backup) != MG_STORE_OK) {
        because(why, db->code, "cannot bring %s to version %d: %s", store->path, mg_store_version, db->message);
    }
    free(backup);
    free(dir);
    return db->code;
}

/* ---- the file ---- */

/* Of the database and of its write-ahead log, which holds what was acknowledged last. */
static const char *const suffixes[MG_STORE_FILES] = {"", "-wal"};

static struct mg_store_file look(const mg_store *store, const char *suffix)
{
    struct stat st;
    char *path = text_of("%s%s", store->path, suffix);
    bool there = stat(path, &st) == 0;
    free(path);
    return there ? (struct mg_store_file){st.st_dev, st.st_ino} : (struct mg_store_file){0};
}

bool mg_store_in_place(const mg_store *store)
{
    for (size_t i = 0; i < MG_STORE_FILES; i++) {
        struct mg_store_file now = look(store, suffixes[i]), then = store->files[i];
        if (then.inode && (now.device != then.device || now.inode != then.inode)) {
            return false;
        }
    }
    return true;
}

static bool check_is_ok(struct mg_db *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    bool ok = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    sqlite3_finalize(stmt);
    return ok;
}

static bool last_stop_was_clean(struct mg_db *db)
{
    return mg_db_pragma(db, "SELECT value = '1' FROM meta WHERE key = 'clean'") == 1;
}

static enum mg_store_code mark(struct mg_db *db, const char *clean)
{
    mg_db_clear(db);
    mg_db_exec(db, "PRAGMA synchronous = FULL");
    db->synced = true;
    MG_RUN(db, SET_META, mg_text("clean"), mg_text(clean));
    return db->code;
}

static enum mg_store_code use_wal(struct mg_db *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    if (rc != SQLITE_ROW) {
        mg_db_fail(db, rc, "journal_mode");
    } else if (strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") != 0) {
        mg_db_fail(db, SQLITE_IOERR, "this file system cannot hold a write-ahead log");
    }
    sqlite3_finalize(stmt);
    return db->code;
}

/* SQLite makes the file empty, and a start may end there; but what a daemon makes once it has jobs lies beside it only
 * where the file has had content. */
static bool was_emptied(const mg_store *store)
{
    static const char *const later[] = {"spool", "cache", "store.db-wal"};
    struct stat st;
    bool found = false, empty = stat(store->path, &st) == 0 && st.st_size == 0;
    for (size_t i = 0; empty && !found && i < sizeof later / sizeof *later; i++) {
        char *path = text_of("%s/%s", store->dir, later[i]);
        found = stat(path, &st) == 0 && (S_ISDIR(st.st_mode) || st.st_size > 0);
        free(path);
    }
    return found;
}

static enum mg_store_code open_writer(mg_store *store, const struct why *why)
{
    struct mg_db *db = &store->writer;
    if (was_emptied(store)) {
        return refused(store, MG_STORE_CORRUPT, "it is empty, in a directory that was in use", why);
    }
    if (mg_db_open(db, store->path, MG_DB_WRITER) != MG_STORE_OK) {
        return refused(store, db->code, db->message, why);
    }
    enum mg_store_code code = check_version(store, db, why);
    if (code != MG_STORE_OK) {
        return code;
    }
    bool fresh = mg_db_pragma(db, "PRAGMA user_version") == 0;
    if (use_wal(db) != MG_STORE_OK) {
        return refused(store, db->code, db->message, why);
    }
    store->unclean = !fresh && !last_stop_was_clean(db);
    if (store->unclean && !check_is_ok(db)) {
        return refused(store, MG_STORE_CORRUPT, "it does not pass its check", why);
    }
    return migrate(store, why);
}

static enum mg_store_code open_files(mg_store *store, const struct why *why)
{
    enum mg_store_code code = open_writer(store, why);
    if (code != MG_STORE_OK) {
        return code;
    }
    struct mg_db *writer = &store->writer, *reader = &store->reader;
    /* Every operation has a savepoint: its old pages go to memory rather than to a file in /tmp. Not before the
     * migrations, which may sort whole tables. */
    mg_db_exec(writer, "PRAGMA temp_store = MEMORY");
    const char *clean = store->config.leave_mark && !store->unclean ? "1" : "0";
    if (mg_db_prepare(writer) != MG_STORE_OK || mark(writer, clean) != MG_STORE_OK) {
        return refused(store, writer->code, writer->message, why);
    }
    if (mg_db_open(reader, store->path, MG_DB_READER) != MG_STORE_OK || mg_db_prepare(reader) != MG_STORE_OK) {
        return refused(store, reader->code, reader->message, why);
    }
    writer->fault = reader->fault = store->config.fault;
    writer->fault_ctx = reader->fault_ctx = store->config.fault_ctx;
    return MG_STORE_OK;
}

/* A file of an older version is not touched: whoever writes brings it up to date. */
static enum mg_store_code open_reader(mg_store *store, const struct why *why)
{
    struct mg_db *db = &store->reader;
    if (mg_db_open(db, store->path, MG_DB_READER) != MG_STORE_OK) {
        return refused(store, db->code, db->message, why);
    }
    enum mg_store_code code = check_version(store, db, why);
    if (code != MG_STORE_OK) {
        return code;
    }
    int version = (int)mg_db_pragma(db, "PRAGMA user_version");
    if (version < mg_store_version) {
        return because(why, MG_STORE_VERSION, "%s has version %d: start this magisd serve on it once", store->path,
                       version);
    }
    db->fault = store->config.fault;
    db->fault_ctx = store->config.fault_ctx;
    return mg_db_prepare(db) == MG_STORE_OK ? MG_STORE_OK : refused(store, db->code, db->message, why);
}

static enum mg_store_code open_all(mg_store *store, const struct why *why)
{
    enum mg_store_code code = check_dir(store, why);
    if (code == MG_STORE_OK && store->config.read_only) {
        code = open_reader(store, why);
    } else if (code == MG_STORE_OK) {
        code = check_owners(store, why);
        code = code == MG_STORE_OK ? take_lock(store, why) : code;
        code = code == MG_STORE_OK ? open_files(store, why) : code;
    }
    for (size_t i = 0; code == MG_STORE_OK && i < MG_STORE_FILES; i++) {
        store->files[i] = look(store, suffixes[i]);
    }
    if (code == MG_STORE_OK && mg_store_start_threads(store) != MG_STORE_OK) {
        code = because(why, MG_STORE_INTERNAL, "cannot start the store's threads");
    }
    return code;
}

static void release(mg_store *store)
{
    mg_db_close(&store->reader);
    mg_db_close(&store->writer);
    if (store->lock_fd >= 0) {
        close(store->lock_fd);
    }
    free(store->path);
    free(store->dir);
    free(store);
}

enum mg_store_code mg_store_open(mg_store **out, const struct mg_store_config *config, char *message, size_t size)
{
    struct why why = {message, size};
    mg_store *store = calloc(1, sizeof *store);
    if (!store) {
        abort();
    }
    because(&why, MG_STORE_OK, "%s", "");
    store->config = *config;
    store->dir = text_of("%s", config->dir);
    store->path = text_of("%s/store.db", config->dir);
    store->config.dir = store->dir;
    store->lock_fd = -1;
    enum mg_store_code code = open_all(store, &why);
    if (code != MG_STORE_OK) {
        release(store);
        store = NULL;
    }
    *out = store;
    return code;
}

void mg_store_close(mg_store *store)
{
    if (!store) {
        return;
    }
    mg_store_stop_threads(store);
    struct mg_db *db = &store->writer;
    mg_db_close(&store->reader);
    if (store->config.read_only) {
        release(store);
        return;
    }
    db->fault = NULL;
    if (!store->config.leave_mark) {
        mark(db, "1");
    }
    sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    release(store);
}
