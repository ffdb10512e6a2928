/* Access tokens: DIR/tokens.json, read by the daemon and written by `magisd token`, also beside a running daemon.
 *
 * A token is shown once, when it is made; kept is its SHA-256. The file is looked at before every decision, so that
 * what is revoked is refused at once. A file that cannot be read lets nobody in. */
#ifndef MG_SERVER_TOKENS_H
#define MG_SERVER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What a route demands. A token's own role is READ or above: submit and measure include read, admin includes all. */
enum mg_role { MG_ROLE_PUBLIC, MG_ROLE_READ, MG_ROLE_SUBMIT, MG_ROLE_MEASURE, MG_ROLE_ADMIN };
const char *mg_role_name(enum mg_role role);
int mg_role_parse(const char *name); /* read, submit, measure, admin; else -1 */
bool mg_role_allows(enum mg_role has, enum mg_role needs);

enum { MG_TOKEN_NAME = 48, MG_TOKEN_TEXT = 48 };

/* Who asks. Where no token is needed: "" and ADMIN. */
struct mg_caller {
    char name[MG_TOKEN_NAME];
    enum mg_role role;
    const char *if_match; /* of a change: the header, by which the job must be as the asker knows it; else NULL */
};
struct mg_token {
    char name[MG_TOKEN_NAME];
    enum mg_role role;
    unsigned char sha256[32];
    int64_t created_at, expires_at, revoked_at; /* milliseconds since the epoch; 0: never */
};

/* ---- the daemon's side ---- */
struct mg_tokens;
struct mg_tokens *mg_tokens_open(const char *data_dir); /* never NULL; data_dir NULL: there are none */
void mg_tokens_close(struct mg_tokens *tokens);         /* NULL is fine */
/* Has a token ever been made here? Then every request needs one. */
bool mg_tokens_exist(struct mg_tokens *tokens);
/* One of them at least is neither revoked nor expired (or nobody can tell). */
bool mg_tokens_valid(struct mg_tokens *tokens);
/* Another number than before: what mg_tokens_check says may have changed, for the file has or a token has expired. */
uint64_t mg_tokens_state(struct mg_tokens *tokens);
/* NULL: *out says who it is; else why the token is refused. Takes the same time for every wrong token. */
const char *mg_tokens_check(struct mg_tokens *tokens, const char *text, struct mg_caller *out);

/* ---- the command's side; DIR must be there ---- */
/* `text` (MG_TOKEN_TEXT bytes) receives the token. */
enum mg_code mg_tokens_add(const char *data_dir, const struct mg_token *token, char *text,
                           struct mg_error *err) MG_WARN_UNUSED;
enum mg_code mg_tokens_revoke(const char *data_dir, const char *name, struct mg_error *err) MG_WARN_UNUSED;
/* *list is malloc'ed. */
enum mg_code mg_tokens_list(const char *data_dir, struct mg_token **list, size_t *count,
                            struct mg_error *err) MG_WARN_UNUSED;

#endif
