/* MurmurHash3 x64-128 (Austin Appleby, public domain; here with a 64-bit seed), splitmix64 and xoshiro256** (Blackman
 * and Vigna, public domain), and Lemire's unbiased bounded numbers. Bytes are read in a fixed order, so results are
 * the same on every machine. */
#include "base/digest.h"

#include <string.h>

static uint64_t rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t finish_lane(uint64_t k)
{
    k ^= k >> 33;
    k *= 0xff51afd7ed558ccdULL;
    k ^= k >> 33;
    k *= 0xc4ceb9fe1a85ec53ULL;
    return k ^ k >> 33;
}

static uint64_t scramble_low(uint64_t k)
{
    return rotate_left(k * 0x87c37b91114253d5ULL, 31) * 0x4cf5ad432745937fULL;
}

static uint64_t scramble_high(uint64_t k)
{
    return rotate_left(k * 0x4cf5ad432745937fULL, 33) * 0x87c37b91114253d5ULL;
}

static struct mg_hash128 mix_pair(struct mg_hash128 h, uint64_t low, uint64_t high)
{
    h.lo ^= scramble_low(low);
    h.lo = (rotate_left(h.lo, 27) + h.hi) * 5 + 0x52dce729;
    h.hi ^= scramble_high(high);
    h.hi = (rotate_left(h.hi, 31) + h.lo) * 5 + 0x38495ab5;
    return h;
}

static struct mg_hash128 finish_hash(struct mg_hash128 h, uint64_t size)
{
    h.lo ^= size;
    h.hi ^= size;
    h.lo += h.hi;
    h.hi += h.lo;
    h.lo = finish_lane(h.lo);
    h.hi = finish_lane(h.hi);
    h.lo += h.hi;
    h.hi += h.lo;
    return h;
}

static uint64_t load_word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static uint64_t load_little(const uint8_t *at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

struct mg_hash128 mg_hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const uint8_t *at = data;
    struct mg_hash128 h = {seed, seed};
    size_t left = size;
    for (; left >= 16; left -= 16, at += 16)
        h = mix_pair(h, load_word(at), load_word(at + 8));
    if (left > 8)
        h.hi ^= scramble_high(load_little(at + 8, left - 8));
    if (left)
        h.lo ^= scramble_low(left < 8 ? load_little(at, left) : load_word(at));
    return finish_hash(h, size);
}

/* The same value as mg_hash_bytes over the words in little-endian order with seed 0. */
struct mg_hash128 mg_hash_words(const uint64_t *words, size_t count)
{
    struct mg_hash128 h = {0, 0};
    for (size_t i = 0; i + 1 < count; i += 2)
        h = mix_pair(h, words[i], words[i + 1]);
    if (count & 1)
        h.lo ^= scramble_low(words[count - 1]);
    return finish_hash(h, (uint64_t)count * 8);
}

struct mg_hash128 mg_hash_add(struct mg_hash128 a, struct mg_hash128 b)
{
    struct mg_hash128 sum = {a.lo + b.lo, a.hi + b.hi};
    sum.hi += sum.lo < a.lo;
    return sum;
}

void mg_rng_init(struct mg_rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15ULL;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        rng->s[i] = z ^ z >> 31;
    }
}

uint64_t mg_rng_next(struct mg_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t mg_rng_below(struct mg_rng *rng, uint64_t bound)
{
    unsigned __int128 product = (unsigned __int128)mg_rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t threshold = (0 - bound) % bound;
        while ((uint64_t)product < threshold)
            product = (unsigned __int128)mg_rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

double mg_rng_unit(struct mg_rng *rng)
{
    return (double)(mg_rng_next(rng) >> 11) * 0x1p-53;
}
