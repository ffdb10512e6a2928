/* Structured log: one JSON object a line on standard error, every text escaped.
 *
 * A line is built in a fixed buffer and written by one write(2); what does not fit is cut, the line
 * stays valid JSON. No state is kept between lines. */
#ifndef MG_SERVER_LOG_H
#define MG_SERVER_LOG_H

#include <stdint.h>
#include <stddef.h>

enum mg_log_level { MG_LOG_INFO, MG_LOG_WARN, MG_LOG_ERROR };

enum { MG_LOG_LINE = 3500 };

struct mg_log_line {
    size_t size;
    char text[MG_LOG_LINE + 8];
};

/* {"time":...,"level":...,"event":... ; members follow; the end writes the line. */
void mg_log_begin(struct mg_log_line *line, enum mg_log_level level, const char *event);
void mg_log_string(struct mg_log_line *line, const char *key, const char *value); /* NULL: left out */
void mg_log_int(struct mg_log_line *line, const char *key, int64_t value);
void mg_log_ms(struct mg_log_line *line, const char *key, double milliseconds);
void mg_log_end(struct mg_log_line *line);

/* A whole line with one member "message". */
void mg_log(enum mg_log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
