/* Numbers of JSON: integers exactly, doubles correctly rounded.
 *
 * A literal is taken as digits times a power of ten. Where both are exact as doubles one operation
 * rounds once and so rightly (Clinger, "How to read floating point numbers accurately", 1990);
 * everything else goes to strtod. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_priv.h"

static bool accept(struct mg_json *json, char c)
{
    if (json->at == json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

/* Exponents beyond this are left to strtod. */
enum { FAR = 100000 };

static bool is_digit(const struct mg_json *json)
{
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

/* Of at most MG_JSON_MAX_SCALAR digits. Trailing zeros are held back, so that 1000...0 and 0.50 stay exact; `scale` is
 * -1 after the point. */
static void scan_digits(struct mg_json *json, struct mg_json_number *number, int scale, int *zeros)
{
    for (; is_digit(json); json->at++) {
        number->exponent += scale;
        unsigned digit = (unsigned)(*json->at - '0');
        if (!digit) {
            ++*zeros;
            continue;
        }
        for (; *zeros >= 0; --*zeros)
            if (__builtin_mul_overflow(number->digits, 10, &number->digits))
                number->exact = false;
        *zeros = 0;
        if (__builtin_add_overflow(number->digits, digit, &number->digits))
            number->exact = false;
    }
}

static bool scan_exponent(struct mg_json *json, struct mg_json_number *number)
{
    json->at++;
    bool negative = accept(json, '-');
    if (!negative)
        accept(json, '+');
    if (!is_digit(json))
        return mg_json_fail_syntax(json, "expected a digit in the exponent");
    int value = 0;
    for (; is_digit(json); json->at++) {
        if (value < FAR)
            value = value * 10 + (*json->at - '0');
        else
            number->exact = false;
    }
    number->exponent += negative ? -value : value;
    return true;
}

static bool scan_number(struct mg_json *json, struct mg_json_number *number)
{
    *number = (struct mg_json_number){.text = json->at, .exact = true};
    int zeros = 0;
    number->negative = accept(json, '-');
    if (!is_digit(json))
        return mg_json_fail_syntax(json, "expected a digit");
    bool zero = *json->at == '0';
    if (zero)
        json->at++;
    if (zero && is_digit(json))
        return mg_json_fail_syntax(json, "a number must not start with 0");
    scan_digits(json, number, 0, &zeros);
    if (accept(json, '.')) {
        if (!is_digit(json))
            return mg_json_fail_syntax(json, "expected a digit after the point");
        scan_digits(json, number, -1, &zeros);
    }
    number->exponent += zeros;
    if (json->at < json->end && (*json->at | 32) == 'e' && !scan_exponent(json, number))
        return false;
    if (json->at < json->end && (isalnum((unsigned char)*json->at) || strchr("._+-", *json->at)))
        return mg_json_fail_syntax(json, "this does not belong to a number");
    number->size = (size_t)(json->at - number->text);
    if (!number->digits && number->exact)
        number->exponent = 0;
    return true;
}

bool mg_json_scan_number(struct mg_json *json, struct mg_json_number *number)
{
    const char *end = json->end;
    json->end = mg_json_scalar_end(json);
    bool good = scan_number(json, number), cut = json->at == json->end && json->end < end;
    json->end = end;
    return cut ? mg_json_fail_long(json) : good;
}

/* The magnitude as an integer; false if it is none or does not fit. */
static bool integer_value(const struct mg_json_number *number, uint64_t *out)
{
    uint64_t value = number->digits;
    int exponent = number->exponent;
    if (!number->exact)
        return false;
    for (; exponent < 0; exponent++, value /= 10)
        if (value % 10)
            return false;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    *out = value;
    return true;
}

static bool read_integer(struct mg_json *json, uint64_t *magnitude, bool *negative)
{
    struct mg_json_number number;
    if (!mg_json_begin(json, MG_JSON_NUMBER) || !mg_json_scan_number(json, &number))
        return false;
    *negative = number.negative;
    if (!integer_value(&number, magnitude))
        return mg_json_fail(json, MG_ERR_INVALID, "expected an integer of 64 bits, found %.*s",
                            (int)(number.size < 40 ? number.size : 40), number.text);
    return true;
}

bool mg_json_int(struct mg_json *json, int64_t *out)
{
    uint64_t magnitude = 0;
    bool negative = false;
    if (!read_integer(json, &magnitude, &negative))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return mg_json_fail(json, MG_ERR_INVALID, "the integer does not fit 64 bits");
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool mg_json_uint(struct mg_json *json, uint64_t *out)
{
    uint64_t magnitude = 0;
    bool negative = false;
    if (!read_integer(json, &magnitude, &negative))
        return false;
    if (negative && magnitude)
        return mg_json_fail(json, MG_ERR_INVALID, "expected an integer >= 0");
    *out = magnitude;
    return true;
}

/* Clinger: both factors are exact doubles, so one rounding is the right one. */
static bool fast_double(const struct mg_json_number *number, double *out)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!number->exact || number->digits > 1ULL << 53 || number->exponent < -22 || number->exponent > 22)
        return false;
    double value = (double)number->digits;
    value = number->exponent < 0 ? value / powers[-number->exponent] : value * powers[number->exponent];
    *out = number->negative ? -value : value;
    return true;
}

/* The literal ends where the document may end, hence the copy. */
static double slow_double(struct mg_json *json, const struct mg_json_number *number)
{
    char small[64];
    if (number->size < sizeof small) {
        memcpy(small, number->text, number->size);
        small[number->size] = 0;
        return strtod(small, NULL);
    }
    struct mg_arena_mark mark = mg_arena_mark(json->arena);
    char *copy = mg_arena_alloc(json->arena, number->size + 1);
    memcpy(copy, number->text, number->size);
    double value = strtod(copy, NULL);
    mg_arena_rewind(json->arena, mark);
    return value;
}

bool mg_json_double(struct mg_json *json, double *out)
{
    struct mg_json_number number;
    if (!mg_json_begin(json, MG_JSON_NUMBER) || !mg_json_scan_number(json, &number))
        return false;
    if (fast_double(&number, out))
        return true;
    *out = slow_double(json, &number);
    if (*out - *out != 0)
        return mg_json_fail(json, MG_ERR_INVALID, "the number is too large for a double");
    return true;
}
