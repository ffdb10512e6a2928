/* SHA-256 (FIPS 180-4), MurmurHash3 x64-128 (Austin Appleby, public domain; here with a 64-bit
 * seed), splitmix64 and xoshiro256** (Blackman and Vigna, public domain), and Lemire's unbiased
 * bounded numbers. Bytes are read in a fixed order, so results are the same on every machine. */
#include "base/digest.h"

#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void expand_block(const uint8_t *block, uint32_t w[64])
{
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One round on v, whose eight variables have moved `turn` places: they change roles instead of moving. */
static inline void mix(uint32_t v[8], unsigned turn, uint32_t added)
{
    uint32_t a = v[(8 - turn) % 8], b = v[(9 - turn) % 8], c = v[(10 - turn) % 8];
    uint32_t e = v[(12 - turn) % 8], f = v[(13 - turn) % 8], g = v[(14 - turn) % 8];
    uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t t1 = v[(15 - turn) % 8] + s1 + (g ^ (e & (f ^ g))) + added;
    uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    v[(11 - turn) % 8] += t1;
    v[(15 - turn) % 8] = t1 + s0 + ((a & b) ^ (c & (a ^ b)));
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    expand_block(block, w);
    for (unsigned i = 0; i < 64; i++)
        w[i] += round_constants[i];
    memcpy(v, state, sizeof v);
    for (const uint32_t *at = w; at < w + 64; at += 8) {
        mix(v, 0, at[0]); /* written out: constant places stay in registers */
        mix(v, 1, at[1]);
        mix(v, 2, at[2]);
        mix(v, 3, at[3]);
        mix(v, 4, at[4]);
        mix(v, 5, at[5]);
        mix(v, 6, at[6]);
        mix(v, 7, at[7]);
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += v[i];
}

void mg_sha256_init(struct mg_sha256 *hash)
{
    *hash = (struct mg_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void mg_sha256_update(struct mg_sha256 *hash, const void *data, size_t size)
{
    const uint8_t *at = data;
    size_t held = hash->length % 64;
    hash->length += size;
    while (size) {
        if (!held && size >= 64) {
            compress(hash->state, at);
            at += 64;
            size -= 64;
            continue;
        }
        size_t part = size < 64 - held ? size : 64 - held;
        memcpy(hash->block + held, at, part);
        held += part;
        at += part;
        size -= part;
        if (held == 64) {
            compress(hash->state, hash->block);
            held = 0;
        }
    }
}

void mg_sha256_final(struct mg_sha256 *hash, uint8_t out[32])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->length * 8;
    size_t held = hash->length % 64;
    mg_sha256_update(hash, padding, (held < 56 ? 56 : 120) - held);
    uint8_t tail[8];
    for (unsigned i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    mg_sha256_update(hash, tail, sizeof tail);
    for (unsigned i = 0; i < 32; i++)
        out[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void mg_sha256_hex(const void *data, size_t size, char out[65])
{
    struct mg_sha256 hash;
    uint8_t raw[32];
    mg_sha256_init(&hash);
    mg_sha256_update(&hash, data, size);
    mg_sha256_final(&hash, raw);
    for (unsigned i = 0; i < 32; i++) {
        out[2 * i] = "0123456789abcdef"[raw[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    out[64] = 0;
}

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
