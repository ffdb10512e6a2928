/* Digests and hashes: SHA-256 (identity of graphs and plans), a 128-bit mixing hash (search
 * states), and a seeded deterministic random generator. None depends on the machine. */
#ifndef MG_BASE_DIGEST_H
#define MG_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

struct mg_sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
};

void mg_sha256_init(struct mg_sha256 *hash);
void mg_sha256_update(struct mg_sha256 *hash, const void *data, size_t size);
void mg_sha256_final(struct mg_sha256 *hash, uint8_t out[32]);
/* Lower-case hex of SHA-256(data); out holds 65 bytes. */
void mg_sha256_hex(const void *data, size_t size, char out[65]);

/* 128-bit values: a whole may hash to the *sum* of the hashes of its parts, so that the
 * order of summation does not matter. */
struct mg_hash128 {
    uint64_t lo, hi;
};
struct mg_hash128 mg_hash_bytes(const void *data, size_t size, uint64_t seed);
struct mg_hash128 mg_hash_words(const uint64_t *words, size_t count);
struct mg_hash128 mg_hash_add(struct mg_hash128 a, struct mg_hash128 b);

/* xoshiro256**, seeded through splitmix64: the same sequence everywhere. */
struct mg_rng {
    uint64_t s[4];
};
void mg_rng_init(struct mg_rng *rng, uint64_t seed);
uint64_t mg_rng_next(struct mg_rng *rng);
uint64_t mg_rng_below(struct mg_rng *rng, uint64_t bound); /* uniform in [0, bound), bound > 0 */
double mg_rng_unit(struct mg_rng *rng);                    /* uniform in [0, 1) */

#endif
