/* SHA-256 (FIPS 180-4), in plain C and, for much data at once, by the SHA instructions of x86 where the processor has
 * them. Bytes are read in a fixed order, so results are the same on every machine. */
#include <stdbool.h>
#include <string.h>

#include "base/digest.h"

#if defined(__x86_64__)
#define SHA256_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { WORTH_ASKING = 2048 }; /* bytes: asking the processor costs microseconds in a virtual machine */

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

/* ---- whole blocks by the processor's own instructions ---- */

#ifdef SHA256_X86
static bool has_instructions(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* Four rounds an entry of `m`; the state is held as ABEF and CDGH, which is what the instructions work on. */
__attribute__((target("sha,sse4.1,ssse3"))) static void compress_blocks(uint32_t state[8], const uint8_t *at,
                                                                        size_t count)
{
    const __m128i big_endian = _mm_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0), m[4];
    for (; count; count--, at += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        for (unsigned i = 0; i < 4; i++)
            m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(at + (size_t)16 * i)), big_endian);
#pragma GCC unroll 16
        for (unsigned i = 0; i < 16; i++) {
            const __m128i *constants = (const __m128i *)(round_constants + (size_t)4 * i);
            const __m128i added = _mm_add_epi32(m[i % 4], _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
            const __m128i *newest = &m[(i + 3) % 4];
            const __m128i middle = _mm_alignr_epi8(*newest, m[(i + 2) % 4], 4);
            m[i % 4] =
                _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(m[i % 4], m[(i + 1) % 4]), middle), *newest);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#else
static bool has_instructions(void)
{
    return false;
}

static void compress_blocks(uint32_t state[8], const uint8_t *at, size_t count)
{
    for (; count; count--, at += 64)
        compress(state, at);
}
#endif

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
    if (!held && size >= WORTH_ASKING && has_instructions()) {
        compress_blocks(hash->state, at, size / 64);
        at += size / 64 * 64;
        size %= 64;
    }
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
