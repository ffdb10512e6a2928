/* Device profiles as JSON: a reader that points at what is wrong and a canonical writer. Both walk
 * the one table of members in fields.def. */
#include "device/device.h"

#include <stddef.h>
#include <string.h>

enum field_type { FIELD_DOUBLE, FIELD_UINT, FIELD_INT64, FIELD_INT32, FIELD_NAME, FIELD_NAMES, FIELD_PEAKS };

struct field {
    const char *key;
    enum field_type type;
    bool required;
    size_t offset;
    double lowest, highest;
};

/* The peaks are no one member of the struct. */
#define peak_flops peak_flops_f32
static const struct field fields[] = {
#define MG_FIELD(type, member, required, lowest, highest)                                                              \
    {"" #member, FIELD_##type, required, offsetof(struct mg_device, member), lowest, highest},
#include "device/fields.def"
#undef MG_FIELD
};
#undef peak_flops
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

static const struct field peaks[] = {
    {"bf16", FIELD_DOUBLE, false, offsetof(struct mg_device, peak_flops_bf16), 1, 1e21},
    {"f16", FIELD_DOUBLE, false, offsetof(struct mg_device, peak_flops_f16), 1, 1e21},
    {"f32", FIELD_DOUBLE, true, offsetof(struct mg_device, peak_flops_f32), 1, 1e21},
    {"f64", FIELD_DOUBLE, false, offsetof(struct mg_device, peak_flops_f64), 1, 1e21},
    {"f8", FIELD_DOUBLE, false, offsetof(struct mg_device, peak_flops_f8), 1, 1e21},
    {"tf32", FIELD_DOUBLE, false, offsetof(struct mg_device, peak_flops_tf32), 1, 1e21},
};
#define PEAK_COUNT (sizeof peaks / sizeof peaks[0])

static void *place_of(const struct field *field, struct mg_device *device)
{
    return (char *)device + field->offset;
}

static const void *place_in(const struct field *field, const struct mg_device *device)
{
    return (const char *)device + field->offset;
}

/* ---- reading ---- */

static bool read_name(struct mg_json *json, char out[64])
{
    const char *text;
    if (!mg_json_string(json, &text, NULL))
        return false;
    size_t length = strlen(text);
    if (length == 0 || length > 63)
        return mg_json_fail(json, MG_ERR_INVALID, "a name has 1 to 63 bytes, this one %zu", length);
    memcpy(out, text, length + 1);
    return true;
}

static bool read_gpu_names(struct mg_json *json, struct mg_device *device)
{
    if (!mg_json_enter_array(json))
        return false;
    while (mg_json_next_element(json)) {
        if (device->gpu_name_count == sizeof device->gpu_names / sizeof device->gpu_names[0])
            return mg_json_fail(json, MG_ERR_LIMIT, "a profile lists at most 8 names");
        if (!read_name(json, device->gpu_names[device->gpu_name_count++]))
            return false;
    }
    return json->err.code == MG_OK;
}

static bool read_whole(struct mg_json *json, const struct field *field, struct mg_device *device)
{
    uint64_t number;
    if (!mg_json_uint(json, &number))
        return false;
    if ((double)number < field->lowest || (double)number > field->highest)
        return mg_json_fail(json, MG_ERR_INVALID, "%s must lie between %.0f and %.0f", field->key, field->lowest,
                            field->highest);
    if (field->type == FIELD_UINT)
        *(uint64_t *)place_of(field, device) = number;
    else if (field->type == FIELD_INT64)
        *(int64_t *)place_of(field, device) = (int64_t)number;
    else
        *(int *)place_of(field, device) = (int)number;
    return true;
}

static bool read_double(struct mg_json *json, const struct field *field, struct mg_device *device)
{
    double *out = place_of(field, device);
    if (!mg_json_double(json, out))
        return false;
    if (!(*out >= field->lowest && *out <= field->highest))
        return mg_json_fail(json, MG_ERR_INVALID, "%s must lie between %g and %g", field->key, field->lowest,
                            field->highest);
    return true;
}

static bool read_fields(struct mg_json *json, const struct field *table, size_t count, struct mg_device *device);

static bool read_field(struct mg_json *json, const struct field *field, struct mg_device *device)
{
    switch (field->type) {
    case FIELD_DOUBLE:
        return read_double(json, field, device);
    case FIELD_NAME:
        return read_name(json, device->name);
    case FIELD_NAMES:
        return read_gpu_names(json, device);
    case FIELD_PEAKS:
        return read_fields(json, peaks, PEAK_COUNT, device);
    default:
        return read_whole(json, field, device);
    }
}

static const struct field *find_field(const struct field *table, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

static bool read_fields(struct mg_json *json, const struct field *table, size_t count, struct mg_device *device)
{
    uint32_t seen = 0;
    const char *key;
    if (!mg_json_enter_object(json))
        return false;
    while (mg_json_next_member(json, &key)) {
        const struct field *field = find_field(table, count, key);
        if (field == NULL)
            return mg_json_fail(json, MG_ERR_INVALID, "a device profile has no member \"%s\"", key);
        if (!read_field(json, field, device))
            return false;
        seen |= 1U << (field - table);
    }
    for (size_t i = 0; i < count; i++)
        if (table[i].required && !(seen & 1U << i))
            return mg_json_fail(json, MG_ERR_INVALID, "the member \"%s\" is missing", table[i].key);
    return json->err.code == MG_OK;
}

struct reading {
    struct mg_arena *arena;
    const char *text;
    size_t size;
    struct mg_device *out;
};

static enum mg_code read_profile(void *context, struct mg_error *err)
{
    struct reading *reading = context;
    struct mg_json json;
    mg_json_init(&json, reading->arena, reading->text, reading->size);
    struct mg_device device = {.mem_eff = 0.85, .copy_streams = 2, .align = 512, .reserve_bytes = 805306368};
    if (!read_fields(&json, fields, FIELD_COUNT, &device) || !mg_json_finish(&json))
        return mg_fail(err, json.err.code, json.err.pointer, "%s", json.err.message);
    if ((device.align & (device.align - 1)) != 0)
        return mg_fail(err, MG_ERR_INVALID, "/align", "align must be a power of two");
    *reading->out = device;
    return MG_OK;
}

enum mg_code mg_device_read(const char *json, size_t size, struct mg_device *out, struct mg_error *err)
{
    struct mg_arena arena;
    mg_arena_init(&arena, 4 * size + (1U << 20));
    struct reading reading = {&arena, json, size, out};
    enum mg_code code = mg_arena_guard(&arena, read_profile, &reading, err);
    mg_arena_release(&arena);
    return code;
}

/* ---- writing ---- */

static void write_fields(struct mg_writer *w, const struct field *table, size_t count, const struct mg_device *device);

static void write_field(struct mg_writer *w, const struct field *field, const struct mg_device *device)
{
    const void *at = place_in(field, device);
    switch (field->type) {
    case FIELD_DOUBLE:
        mg_write_double(w, *(const double *)at);
        break;
    case FIELD_UINT:
        mg_write_uint(w, *(const uint64_t *)at);
        break;
    case FIELD_INT64:
        mg_write_int(w, *(const int64_t *)at);
        break;
    case FIELD_INT32:
        mg_write_int(w, *(const int *)at);
        break;
    case FIELD_NAME:
        mg_write_string(w, device->name);
        break;
    case FIELD_NAMES:
        mg_write_begin_array(w);
        for (uint32_t i = 0; i < device->gpu_name_count; i++)
            mg_write_string(w, device->gpu_names[i]);
        mg_write_end_array(w);
        break;
    case FIELD_PEAKS:
        write_fields(w, peaks, PEAK_COUNT, device);
        break;
    }
}

static void write_fields(struct mg_writer *w, const struct field *table, size_t count, const struct mg_device *device)
{
    mg_write_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        /* A peak that the profile lacks is 0 and stays out, so that reading restores the lack. */
        if (table == peaks && !(*(const double *)place_in(&table[i], device) > 0))
            continue;
        mg_write_key(w, table[i].key);
        write_field(w, &table[i], device);
    }
    mg_write_end_object(w);
}

void mg_device_write(struct mg_writer *w, const struct mg_device *device)
{
    write_fields(w, fields, FIELD_COUNT, device);
}
