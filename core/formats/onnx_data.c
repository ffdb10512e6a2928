/* Contents of tensors: raw bytes (little endian) or typed lists into doubles or 64-bit integers. */
#include <string.h>

#include "formats/onnx_priv.h"

struct element_type {
    const char *name;
    bool known;
    enum mg_dtype dtype;
    uint32_t size; /* in raw data */
};
static const struct element_type element_types[] = {
    [1] = {"float32", true, MG_DTYPE_F32, 4},
    [2] = {"uint8", true, MG_DTYPE_U8, 1},
    [3] = {"int8", true, MG_DTYPE_I8, 1},
    [4] = {"uint16", true, MG_DTYPE_U16, 2},
    [5] = {"int16", true, MG_DTYPE_I16, 2},
    [6] = {"int32", true, MG_DTYPE_I32, 4},
    [7] = {"int64", true, MG_DTYPE_I64, 8},
    [8] = {"string", false, MG_DTYPE_COUNT, 0},
    [9] = {"bool", true, MG_DTYPE_BOOL, 1},
    [10] = {"float16", true, MG_DTYPE_F16, 2},
    [11] = {"float64", true, MG_DTYPE_F64, 8},
    [12] = {"uint32", true, MG_DTYPE_U32, 4},
    [13] = {"uint64", true, MG_DTYPE_U64, 8},
    [14] = {"complex64", false, MG_DTYPE_COUNT, 8},
    [15] = {"complex128", false, MG_DTYPE_COUNT, 16},
    [16] = {"bfloat16", true, MG_DTYPE_BF16, 2},
    [17] = {"float8e4m3fn", true, MG_DTYPE_F8E4M3, 1},
    [18] = {"float8e4m3fnuz", false, MG_DTYPE_COUNT, 1},
    [19] = {"float8e5m2", true, MG_DTYPE_F8E5M2, 1},
    [20] = {"float8e5m2fnuz", false, MG_DTYPE_COUNT, 1},
    [21] = {"uint4", false, MG_DTYPE_COUNT, 0},
    [22] = {"int4", false, MG_DTYPE_COUNT, 0},
};

static const struct element_type *element_type(int64_t id)
{
    bool listed = id > 0 && (uint64_t)id < sizeof element_types / sizeof element_types[0];
    return listed && element_types[id].name ? &element_types[id] : NULL;
}

bool mg_onnx_dtype(int64_t id, enum mg_dtype *out)
{
    const struct element_type *type = element_type(id);
    *out = type ? type->dtype : MG_DTYPE_COUNT;
    return type && type->known;
}

const char *mg_onnx_dtype_text(int64_t id)
{
    const struct element_type *type = element_type(id);
    return type ? type->name : "of an unknown element type";
}

double mg_onnx_data_at(const struct mg_onnx_data *data, int64_t i)
{
    i = data->uniform ? 0 : i;
    if (data->dtype == MG_DTYPE_U64 && !data->real)
        return (double)(uint64_t)data->whole[i];
    return data->real ? data->real[i] : (double)data->whole[i];
}

/* A small float with `mantissa` bits after the point and a bias; `finite`: the largest exponent is no infinity. */
static double small_float(uint32_t bits, unsigned exponent_bits, unsigned mantissa_bits, bool finite)
{
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1), most = (1u << exponent_bits) - 1;
    int bias = (1 << (exponent_bits - 1)) - 1;
    bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
    bool nan = exponent == most && (finite ? mantissa == (1u << mantissa_bits) - 1 : mantissa != 0);
    uint64_t wide = exponent == most && !finite
                        ? (uint64_t)0x7ff << 52
                        : (uint64_t)((int)exponent - bias + 1023) << 52 | (uint64_t)mantissa << (52 - mantissa_bits);
    if (nan)
        wide = (uint64_t)0x7ff8 << 48;
    double value;
    memcpy(&value, &wide, sizeof value);
    if (exponent == 0) {
        /* subnormal: mantissa times 2^(1 - bias - mantissa bits) */
        wide = (uint64_t)(1 - bias - (int)mantissa_bits + 1023) << 52;
        memcpy(&value, &wide, sizeof value);
        value *= mantissa;
    }
    return negative ? -value : value;
}

static double bfloat(uint32_t bits)
{
    uint32_t wide = bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* A real number from its bits, as they stand in raw data or in int32_data. */
static double real_of_bits(enum mg_dtype dtype, uint64_t bits)
{
    double value;
    float single;
    uint32_t low = (uint32_t)bits;
    switch (dtype) {
    case MG_DTYPE_F64:
        memcpy(&value, &bits, sizeof value);
        return value;
    case MG_DTYPE_F32:
        memcpy(&single, &low, sizeof single);
        return (double)single;
    case MG_DTYPE_F16:
        return small_float(low & 0xffff, 5, 10, false);
    case MG_DTYPE_BF16:
        return bfloat(low & 0xffff);
    case MG_DTYPE_F8E4M3:
        return small_float(low & 0xff, 4, 3, true);
    default:
        return small_float(low & 0xff, 5, 2, false);
    }
}

static int64_t whole_of_bits(enum mg_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case MG_DTYPE_I64:
    case MG_DTYPE_U64:
        return (int64_t)bits;
    case MG_DTYPE_I32:
        return (int32_t)(uint32_t)bits;
    case MG_DTYPE_I16:
        return (int16_t)(uint16_t)bits;
    case MG_DTYPE_I8:
        return (int8_t)(uint8_t)bits;
    case MG_DTYPE_U8:
        return (uint8_t)bits;
    case MG_DTYPE_U16:
        return (uint16_t)bits;
    case MG_DTYPE_U32:
        return (uint32_t)bits;
    default:
        return (bits & 0xff) != 0;
    }
}

static uint64_t raw_bits(const uint8_t *data, int64_t i, uint32_t size)
{
    uint64_t bits = 0;
    for (uint32_t k = 0; k < size; k++)
        bits |= (uint64_t)data[(size_t)i * size + k] << 8 * k;
    return bits;
}

/* Where the elements lie: true and their number. */
static bool typed_elements(const struct onnx_tensor *tensor, enum mg_dtype dtype, uint32_t *count)
{
    const struct onnx_list *list = dtype == MG_DTYPE_F64   ? &tensor->doubles
                                   : dtype == MG_DTYPE_F32 ? &tensor->floats
                                                           : &tensor->ints;
    *count = list->count;
    return !tensor->dropped;
}

static double typed_real(const struct onnx_tensor *tensor, enum mg_dtype dtype, int64_t i)
{
    if (dtype == MG_DTYPE_F64)
        return *ONNX_AT(tensor->doubles, double, i);
    if (dtype == MG_DTYPE_F32)
        return (double)*ONNX_AT(tensor->floats, float, i);
    return real_of_bits(dtype, (uint64_t)*ONNX_AT(tensor->ints, int64_t, i));
}

static void fill(const struct onnx_tensor *tensor, struct mg_arena *arena, struct mg_onnx_data *data, uint32_t size)
{
    int64_t count = mg_shape_elements(&data->shape);
    double *real = data->dtype < MG_DTYPE_I64 ? MG_NEW_ARRAY(arena, double, count + 1) : NULL;
    int64_t *whole = real ? NULL : MG_NEW_ARRAY(arena, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = tensor->raw.data ? raw_bits(tensor->raw.data, i, size) : 0;
        if (real)
            real[i] = tensor->raw.data ? real_of_bits(data->dtype, bits) : typed_real(tensor, data->dtype, i);
        else
            whole[i] =
                whole_of_bits(data->dtype, tensor->raw.data ? bits : (uint64_t)*ONNX_AT(tensor->ints, int64_t, i));
    }
    data->real = real;
    data->whole = whole;
}

static enum mg_code read_shape(const struct onnx_tensor *tensor, const char *place, struct mg_onnx_data *out,
                               struct mg_error *err)
{
    if (tensor->dims.count > MG_MAX_RANK)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "%.200s has %u dimensions, more than %d", place, tensor->dims.count,
                       MG_MAX_RANK);
    out->shape = (struct mg_shape){.rank = tensor->dims.count};
    for (uint32_t d = 0; d < tensor->dims.count; d++)
        out->shape.dim[d] = *ONNX_AT(tensor->dims, int64_t, d);
    if (!mg_onnx_dtype(tensor->data_type.value, &out->dtype))
        return mg_fail(err, MG_ERR_UNSUPPORTED, "", "%.200s is %s", place, mg_onnx_dtype_text(tensor->data_type.value));
    if (!mg_shape_fits(&out->shape, out->dtype))
        return mg_fail(err, MG_ERR_INVALID, "", "%.200s has dimensions that are negative or too large", place);
    return MG_OK;
}

enum mg_code mg_onnx_decode(const struct onnx_tensor *tensor, struct mg_arena *arena, const char *place,
                            struct mg_onnx_data *shape, const struct mg_onnx_data **out, struct mg_error *err)
{
    *out = NULL;
    enum mg_code code = read_shape(tensor, place, shape, err);
    if (code != MG_OK)
        return code;
    uint32_t size = element_types[tensor->data_type.value].size, typed;
    uint64_t count = (uint64_t)mg_shape_elements(&shape->shape);
    bool external = tensor->location.value == 1;
    bool kept = typed_elements(tensor, shape->dtype, &typed);
    if (external || (tensor->raw.size && !tensor->raw.data) || !kept)
        return MG_OK;
    uint64_t have = tensor->raw.data ? tensor->raw.size / size : typed;
    if (have != count || (tensor->raw.data && tensor->raw.size % size))
        return mg_fail(err, MG_ERR_INVALID, "", "%.200s has data for %llu elements where its shape has %llu", place,
                       (unsigned long long)have, (unsigned long long)count);
    struct mg_onnx_data *data = mg_arena_copy(arena, shape, sizeof *shape);
    fill(tensor, arena, data, size);
    *out = data;
    return MG_OK;
}
