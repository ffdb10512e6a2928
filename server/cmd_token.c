/* `magisd token add NAME --role R | list | revoke NAME`: works on DIR/tokens.json, beside a running daemon too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/options.h"
#include "server/tokens.h"

static const char *data_dir(const struct mg_options *options)
{
    const char *dir = options->value[MG_OPTION_DATA];
    return dir ? dir : "magisd-data";
}

static int fail(const struct mg_error *err)
{
    fprintf(stderr, "magisd token: %s\n", err->message);
    return err->code == MG_ERR_INVALID ? MG_EXIT_USAGE : MG_EXIT_FAILED;
}

/* Seconds from now: "30d", "12h", or a day (UTC). Not above 0: it is none of these. */
static double read_expiry(const char *text)
{
    char *end;
    struct tm day = {0};
    size_t digits = strspn(text, "0123456789.");
    double count = strtod(text, &end);
    bool counted = digits && end == text + digits; /* no 1e3, 0x10 or inf */
    if (counted && (strcmp(end, "d") == 0 || strcmp(end, "h") == 0))
        return count * (*end == 'd' ? 86400 : 3600);
    const char *rest = strptime(text, "%Y-%m-%d", &day);
    const int given = day.tm_mday;
    time_t at = timegm(&day); /* takes February 30 for a day of March */
    return rest && !*rest && day.tm_mday == given ? difftime(at, time(NULL)) : 0;
}

/* NULL, or what is wrong with it. */
static const char *set_expiry(const char *text, struct mg_token *token)
{
    static const double most_seconds = 100 * 365.25 * 86400;
    double seconds = read_expiry(text);
    if (!(seconds > 0))
        return "--expires is a time like 90d or 12h, or a day to come like 2030-01-31";
    if (seconds > most_seconds)
        return "--expires lies more than 100 years ahead; without it the token does not expire";
    token->expires_at = ((int64_t)time(NULL) + (int64_t)seconds) * 1000;
    return NULL;
}

static int add(const struct mg_options *options, const char *name)
{
    struct mg_token token = {.role = MG_ROLE_READ};
    struct mg_error err = {0};
    char text[MG_TOKEN_TEXT];
    const char *role = options->value[MG_OPTION_ROLE], *expires = options->value[MG_OPTION_EXPIRES];
    int value = role ? mg_role_parse(role) : -1;
    if (value < 0) {
        fprintf(stderr, "magisd token add: --role is read, submit, measure or admin\n");
        return MG_EXIT_USAGE;
    }
    const char *wrong = expires ? set_expiry(expires, &token) : NULL;
    if (!wrong && strlen(name) >= sizeof token.name)
        wrong = "the name is too long";
    if (wrong) {
        fprintf(stderr, "magisd token add: %s\n", wrong);
        return MG_EXIT_USAGE;
    }
    snprintf(token.name, sizeof token.name, "%s", name);
    token.role = (enum mg_role)value;
    mkdir(data_dir(options), 0700);
    if (mg_tokens_add(data_dir(options), &token, text, &err) != MG_OK)
        return fail(&err);
    fprintf(
        stderr,
        "This token is shown once; send it as Authorization: Bearer TOKEN. From now on the daemon of this directory "
        "answers nobody without one.\n");
    printf("%s\n", text);
    return MG_EXIT_DONE;
}

/* Of a daemon, or where a token was made: other directories hold none that could be listed or revoked. */
static enum mg_code check_data_dir(const char *dir, struct mg_error *err)
{
    static const char *const names[] = {"tokens.json", "store.db"};
    char path[4200];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
            return MG_OK; /* what is wrong with it is said by who reads it */
    }
    if (stat(dir, &st) != 0)
        return mg_fail(err, MG_ERR_INVALID, "", "%s: %s; --data names the daemon's directory", dir, strerror(errno));
    return mg_fail(err, MG_ERR_INVALID, "", "%s holds no data of magisd; --data names the daemon's directory", dir);
}

static void print_time(int64_t ms)
{
    char text[32] = "-";
    struct tm parts;
    time_t seconds = (time_t)(ms / 1000);
    if (ms > 0 && gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    printf("  %-16s", text);
}

static int list(const struct mg_options *options)
{
    struct mg_token *tokens;
    size_t count;
    struct mg_error err = {0};
    if (check_data_dir(data_dir(options), &err) != MG_OK ||
        mg_tokens_list(data_dir(options), &tokens, &count, &err) != MG_OK)
        return fail(&err);
    printf("%-24s %-8s  %-16s  %-16s  %-16s\n", "name", "role", "made (UTC)", "expires", "revoked");
    for (size_t i = 0; i < count; i++) {
        printf("%-24s %-8s", tokens[i].name, mg_role_name(tokens[i].role));
        print_time(tokens[i].created_at);
        print_time(tokens[i].expires_at);
        print_time(tokens[i].revoked_at);
        printf("\n");
    }
    free(tokens);
    return MG_EXIT_DONE;
}

static void warn_if_last(const struct mg_options *options)
{
    struct mg_tokens *tokens = mg_tokens_open(data_dir(options));
    if (!mg_tokens_valid(tokens))
        fprintf(
            stderr,
            "It was the last valid one: the daemon of this directory lets nobody in (unless it runs with --insecure) "
            "until another one is made: magisd token add NAME --role ROLE --data %s\n",
            data_dir(options));
    mg_tokens_close(tokens);
}

static int run(const struct mg_options *options)
{
    const char *what = options->argument_count ? options->argument[0] : "";
    struct mg_error err = {0};
    if (strcmp(what, "list") == 0 && options->argument_count == 1)
        return list(options);
    if (strcmp(what, "add") == 0 && options->argument_count == 2)
        return add(options, options->argument[1]);
    if (strcmp(what, "revoke") == 0 && options->argument_count == 2) {
        if (check_data_dir(data_dir(options), &err) != MG_OK ||
            mg_tokens_revoke(data_dir(options), options->argument[1], &err) != MG_OK)
            return fail(&err);
        printf("%s is revoked\n", options->argument[1]);
        warn_if_last(options);
        return MG_EXIT_DONE;
    }
    fprintf(stderr,
            "usage: magisd token add NAME --role read|submit|measure|admin [--expires D] | list | revoke NAME\n");
    return MG_EXIT_USAGE;
}

int mg_cmd_token(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_TOKEN, argc, argv, &code))
        code = run(&options);
    mg_options_release(&options);
    return code;
}
