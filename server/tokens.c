#include "server/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "server/clock.h"
#include "store/owner.h"

enum { RANDOM_BYTES = 30, MAX_TOKENS = 10000 };

static const char *const roles[] = {"public", "read", "submit", "measure", "admin"};

const char *mg_role_name(enum mg_role role)
{
    return roles[role];
}

int mg_role_parse(const char *name)
{
    for (int i = MG_ROLE_READ; i <= MG_ROLE_ADMIN; i++)
        if (strcmp(roles[i], name) == 0)
            return i;
    return -1;
}

bool mg_role_allows(enum mg_role has, enum mg_role needs)
{
    return needs == MG_ROLE_PUBLIC || has == MG_ROLE_ADMIN || has == needs ||
           (needs == MG_ROLE_READ && has != MG_ROLE_PUBLIC);
}

static void hash_text(const char *text, unsigned char out[32])
{
    struct mg_sha256 hash;
    mg_sha256_init(&hash);
    mg_sha256_update(&hash, text, strlen(text));
    mg_sha256_final(&hash, out);
}

/* ---- the file ---- */

static bool path_of(const char *data_dir, const char *name, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/%s", data_dir, name);
    return length > 0 && (size_t)length < size;
}

static bool read_hex(const char *text, unsigned char out[32])
{
    if (!text || strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return true;
}

static bool read_token(json_t *object, struct mg_token *token)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *role = json_string_value(json_object_get(object, "role"));
    int value = role ? mg_role_parse(role) : -1;
    memset(token, 0, sizeof *token);
    if (!name || strlen(name) >= sizeof token->name || value < 0 ||
        !read_hex(json_string_value(json_object_get(object, "sha256")), token->sha256))
        return false;
    snprintf(token->name, sizeof token->name, "%s", name);
    token->role = (enum mg_role)value;
    token->created_at = json_integer_value(json_object_get(object, "created_at"));
    token->expires_at = json_integer_value(json_object_get(object, "expires_at"));
    token->revoked_at = json_integer_value(json_object_get(object, "revoked_at"));
    return true;
}

/* 1: read; 0: there is no file; -1: it cannot be read. */
static int load(const char *data_dir, struct mg_token **list, size_t *count)
{
    char path[4096];
    *list = NULL;
    *count = 0;
    if (!path_of(data_dir, "tokens.json", path, sizeof path))
        return -1;
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? 0 : -1;
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, NULL), *array = json_object_get(root, "tokens");
    fclose(file);
    size_t n = json_array_size(array);
    *list = calloc(n + 1, sizeof **list);
    bool good = json_is_array(array) && n <= MAX_TOKENS && *list;
    for (size_t i = 0; i < n && good; i++)
        good = read_token(json_array_get(array, i), &(*list)[(*count)++]);
    json_decref(root);
    if (good)
        return 1;
    free(*list);
    *list = NULL;
    *count = 0;
    return -1;
}

static json_t *write_token(const struct mg_token *token)
{
    char hex[65];
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", token->sha256[i]);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "name", token->name, "role", mg_role_name(token->role), "sha256",
                     hex, "created_at", (json_int_t)token->created_at, "expires_at", (json_int_t)token->expires_at,
                     "revoked_at", (json_int_t)token->revoked_at);
}

/* To a file beside, readable by its owner alone, synced, renamed. */
static enum mg_code save(const char *data_dir, const struct mg_token *list, size_t count, struct mg_error *err)
{
    char path[4096], beside[4096];
    json_t *array = json_array(), *root = json_pack("{s:o}", "tokens", array);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, write_token(&list[i]));
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    bool good = text && path_of(data_dir, "tokens.json", path, sizeof path) &&
                path_of(data_dir, ".tokens.json.new", beside, sizeof beside);
    int fd = good ? open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    size_t size = good ? strlen(text) : 0;
    good = fd >= 0 && write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    int cause = errno;
    if (fd >= 0)
        close(fd);
    if (good && rename(beside, path) != 0) {
        good = false;
        cause = errno;
    }
    free(text);
    return good ? MG_OK
                : mg_fail(err, MG_ERR_INTERNAL, "", "%s: the tokens were not written: %s", data_dir, strerror(cause));
}

/* ---- the daemon's side ---- */

struct mg_tokens {
    char *data_dir;
    struct mg_token *list;
    size_t count;
    int state; /* of load() */
    struct stat seen;
    uint64_t changes;    /* so far: other tokens, or one that expired */
    int64_t next_expiry; /* 0: none */
};

struct mg_tokens *mg_tokens_open(const char *data_dir)
{
    struct mg_tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens || (data_dir && !(tokens->data_dir = strdup(data_dir))))
        abort();
    return tokens;
}

void mg_tokens_close(struct mg_tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->data_dir);
    free(tokens->list);
    free(tokens);
}

static void find_next_expiry(struct mg_tokens *tokens)
{
    int64_t now = mg_clock_wall_ms(), next = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        int64_t at = tokens->list[i].expires_at;
        if (at > now && (!next || at < next))
            next = at;
    }
    tokens->next_expiry = next;
    tokens->changes++;
}

/* The file is only ever replaced as a whole: another one has another inode or time. */
static void refresh(struct mg_tokens *tokens)
{
    struct stat st;
    char path[4096];
    if (!tokens->data_dir || !path_of(tokens->data_dir, "tokens.json", path, sizeof path))
        return;
    if (stat(path, &st) != 0)
        memset(&st, 0, sizeof st);
    const struct stat *seen = &tokens->seen;
    if (st.st_ino == seen->st_ino && st.st_size == seen->st_size && st.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec)
        return;
    tokens->seen = st;
    free(tokens->list);
    tokens->state = load(tokens->data_dir, &tokens->list, &tokens->count);
    find_next_expiry(tokens);
}

uint64_t mg_tokens_state(struct mg_tokens *tokens)
{
    refresh(tokens);
    if (tokens->next_expiry && tokens->next_expiry <= mg_clock_wall_ms())
        find_next_expiry(tokens);
    return tokens->changes;
}

bool mg_tokens_exist(struct mg_tokens *tokens)
{
    refresh(tokens);
    return tokens->state < 0 || tokens->count > 0;
}

static bool is_valid(const struct mg_token *token)
{
    return !token->revoked_at && (!token->expires_at || token->expires_at > mg_clock_wall_ms());
}

bool mg_tokens_valid(struct mg_tokens *tokens)
{
    refresh(tokens);
    for (size_t i = 0; i < tokens->count; i++)
        if (is_valid(&tokens->list[i]))
            return true;
    return tokens->state < 0;
}

static bool same_digest(const unsigned char *a, const unsigned char *b)
{
    unsigned char difference = 0;
    for (int i = 0; i < 32; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

const char *mg_tokens_check(struct mg_tokens *tokens, const char *text, struct mg_caller *out)
{
    unsigned char digest[32];
    const struct mg_token *found = NULL;
    refresh(tokens);
    hash_text(text, digest);
    for (size_t i = 0; i < tokens->count; i++)
        if (same_digest(tokens->list[i].sha256, digest))
            found = &tokens->list[i];
    if (!found)
        return "the token is not known";
    if (found->revoked_at)
        return "the token was revoked";
    if (found->expires_at && found->expires_at <= mg_clock_wall_ms())
        return "the token has expired";
    snprintf(out->name, sizeof out->name, "%s", found->name);
    out->role = found->role;
    return NULL;
}

/* ---- the command's side ---- */

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length >= 1 && length < MG_TOKEN_NAME &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-") == length;
}

static void make_text(char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[RANDOM_BYTES];
    if (getrandom(random, sizeof random, 0) != RANDOM_BYTES)
        abort();
    char *at = text + snprintf(text, 5, "mgt_");
    for (int i = 0; i < RANDOM_BYTES; i += 3) {
        unsigned bits = (unsigned)random[i] << 16 | (unsigned)random[i + 1] << 8 | random[i + 2];
        for (int k = 18; k >= 0; k -= 6)
            *at++ = digits[bits >> k & 63];
    }
    *at = '\0';
}

/* Commands take turns. -1: it cannot be had. */
static int lock(const char *data_dir, struct mg_error *err)
{
    char path[4096], owner[4400];
    int fd = path_of(data_dir, "tokens.lock", path, sizeof path) ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && flock(fd, LOCK_EX) == 0)
        return fd;
    int problem = errno;
    if (problem == EACCES && mg_owner_explain(path, R_OK | W_OK, owner, sizeof owner))
        (void)mg_fail(err, MG_ERR_INVALID, "", "%s: run this as that user", owner);
    else
        (void)mg_fail(err, MG_ERR_INVALID, "", "%s: %s", data_dir, strerror(problem));
    if (fd >= 0)
        close(fd);
    return -1;
}

static struct mg_token *find_name(struct mg_token *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

enum mg_code mg_tokens_list(const char *data_dir, struct mg_token **list, size_t *count, struct mg_error *err)
{
    return load(data_dir, list, count) >= 0
               ? MG_OK
               : mg_fail(err, MG_ERR_INVALID, "", "%s/tokens.json cannot be read; nobody is let in until it can",
                         data_dir);
}

static enum mg_code add_locked(const char *data_dir, const struct mg_token *token, char *text, struct mg_error *err)
{
    struct mg_token *list, *known;
    size_t count;
    enum mg_code code = mg_tokens_list(data_dir, &list, &count, err);
    if (code != MG_OK)
        return code;
    known = find_name(list, count, token->name);
    if (known && !known->revoked_at)
        code = mg_fail(err, MG_ERR_INVALID, "", "there is a token %s already; revoke it first", token->name);
    struct mg_token *all = code == MG_OK ? realloc(list, (count + 1) * sizeof *all) : NULL;
    if (all) {
        list = all;
        known = find_name(list, count, token->name);
        struct mg_token *slot = known ? known : &list[count++];
        *slot = *token;
        make_text(text);
        hash_text(text, slot->sha256);
        slot->created_at = mg_clock_wall_ms();
        code = save(data_dir, list, count, err);
    }
    free(list);
    return code;
}

enum mg_code mg_tokens_add(const char *data_dir, const struct mg_token *token, char *text, struct mg_error *err)
{
    if (!is_name(token->name))
        return mg_fail(err, MG_ERR_INVALID, "", "a name has 1 to %d letters, digits or . _ @ -", MG_TOKEN_NAME - 1);
    int fd = lock(data_dir, err);
    if (fd < 0)
        return err->code;
    enum mg_code code = add_locked(data_dir, token, text, err);
    close(fd);
    return code;
}

enum mg_code mg_tokens_revoke(const char *data_dir, const char *name, struct mg_error *err)
{
    struct mg_token *list = NULL;
    size_t count = 0;
    int fd = lock(data_dir, err);
    if (fd < 0)
        return err->code;
    enum mg_code code = mg_tokens_list(data_dir, &list, &count, err);
    struct mg_token *token = code == MG_OK ? find_name(list, count, name) : NULL;
    if (token && !token->revoked_at) {
        token->revoked_at = mg_clock_wall_ms();
        code = save(data_dir, list, count, err);
    } else if (code == MG_OK) {
        code = mg_fail(err, MG_ERR_INVALID, "", token ? "%s was revoked before" : "there is no token %s", name);
    }
    free(list);
    close(fd);
    return code;
}
