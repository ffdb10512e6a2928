/* `magisd serve`: options to configuration; and a daemon that serves a command on a directory (own_daemon.h). */
#include <stdio.h>

#include <uv.h>

#include "server/options.h"
#include "server/serve.h"

static const char *text(const struct mg_options *options, enum mg_option id, const char *fallback)
{
    return options->value[id] ? options->value[id] : fallback;
}

static unsigned count(const struct mg_options *options, enum mg_option id, unsigned fallback)
{
    uint64_t value = mg_options_uint(options, id, fallback);
    return value > 1000000 ? 1000000 : (unsigned)value;
}

static void read_limits(const struct mg_options *o, struct mg_http_limits *limits)
{
    limits->body_bytes = mg_options_uint(o, MG_OPTION_MAX_BODY, 64ull << 20);
    limits->uploads_bytes = mg_options_uint(o, MG_OPTION_MAX_UPLOADS, 512ull << 20);
    limits->header_bytes = (uint32_t)mg_options_uint(o, MG_OPTION_MAX_HEADER, 32 << 10);
    limits->connections = count(o, MG_OPTION_MAX_CONNECTIONS, 2000);
    limits->per_address = count(o, MG_OPTION_MAX_PER_ADDRESS, 64);
    limits->idle_s = count(o, MG_OPTION_IDLE_SECONDS, 30);
    limits->request_s = count(o, MG_OPTION_UPLOAD_SECONDS, 600);
    limits->stream_bytes = 256 << 10;
}

static void read_http(const struct mg_options *o, struct mg_http_config *http)
{
    http->listen = text(o, MG_OPTION_LISTEN, "127.0.0.1:8080");
    http->public_url = text(o, MG_OPTION_PUBLIC_URL, "");
    http->cors_origins = text(o, MG_OPTION_CORS_ORIGIN, "");
    http->web_dir = text(o, MG_OPTION_WEB, NULL);
    http->insecure = mg_options_flag(o, MG_OPTION_INSECURE);
    http->quiet = mg_options_flag(o, MG_OPTION_QUIET);
    http->trusted_proxy = mg_options_flag(o, MG_OPTION_TRUSTED_PROXY);
    read_limits(o, &http->limits);
}

static void read_config(const struct mg_options *o, struct mg_serve_config *config)
{
    read_http(o, &config->http);
    config->data_dir = text(o, MG_OPTION_DATA, "magisd-data");
    config->port_file = text(o, MG_OPTION_PORT_FILE, NULL);
    config->workers = count(o, MG_OPTION_WORKERS, uv_available_parallelism());
    config->intakes = count(o, MG_OPTION_INTAKES, 2);
    config->max_seconds = mg_options_number(o, MG_OPTION_MAX_SECONDS, 600);
    config->pause_seconds = mg_options_number(o, MG_OPTION_PAUSE_SECONDS, 60);
    config->silence_seconds = mg_options_number(o, MG_OPTION_SILENCE_SECONDS, 300);
    config->max_queued = mg_options_uint(o, MG_OPTION_MAX_QUEUED, 1000);
    config->max_queued_per_owner = mg_options_uint(o, MG_OPTION_MAX_QUEUED_PER_OWNER, 50);
    config->min_free_bytes = mg_options_uint(o, MG_OPTION_MIN_FREE, 200000000);
    config->keep_days = (double)mg_options_uint(o, MG_OPTION_KEEP_DAYS, 30);
    config->max_store_bytes = mg_options_uint(o, MG_OPTION_MAX_STORE, 20000000000);
    /* room for 200,000 operators, or 64 MiB of JSON, three quarters of it theirs */
    config->intake_memory_bytes = 1536ull << 20;
    config->intake_cpu_seconds = 10;
}

int mg_cmd_serve(int argc, char **argv)
{
    struct mg_options options;
    int code;
    if (mg_options_parse(&options, MG_COMMAND_SERVE, argc, argv, &code)) {
        struct mg_serve_config config = {0};
        struct mg_error err;
        read_config(&options, &config);
        if (mg_http_check_listen(config.http.listen, &err) == MG_OK) {
            code = mg_serve(&config);
        } else { /* before a store is made or read */
            fprintf(stderr, "magisd: %s\n", err.message);
            code = MG_EXIT_USAGE;
        }
    }
    mg_options_release(&options);
    return code;
}

int mg_cmd_timings_daemon(int argc, char **argv)
{
    const struct mg_options defaults = {0};
    struct mg_serve_config config = {0};
    if (argc != 4) {
        fprintf(stderr, "magisd timings-daemon is started by commands that work on a directory\n");
        return MG_EXIT_USAGE;
    }
    read_config(&defaults, &config);
    config.data_dir = argv[1];
    config.http.listen = argv[2];
    config.port_file = argv[3];
    config.http.quiet = config.only_timings = true;
    config.intakes = 1;
    return mg_serve(&config);
}
