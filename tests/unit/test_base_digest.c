#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

/* FIPS 180-4 examples and NIST's long message. */
Test(sha256, known_answers)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mg_sha256_hex(cases[i].text, strlen(cases[i].text), hex);
        cr_assert_str_eq(hex, cases[i].hex);
    }
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    mg_sha256_hex(million, 1000000, hex);
    cr_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

Test(sha256, pieces_do_not_matter)
{
    uint8_t data[300], whole[32], pieces[32];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t size = 0; size <= sizeof data; size++) {
        struct mg_sha256 hash;
        mg_sha256_init(&hash);
        mg_sha256_update(&hash, data, size);
        mg_sha256_final(&hash, whole);
        mg_sha256_init(&hash);
        for (size_t at = 0, step = 1; at < size; at += step, step = step * 3 % 71 + 1)
            mg_sha256_update(&hash, data + at, at + step > size ? size - at : step);
        mg_sha256_final(&hash, pieces);
        cr_assert_arr_eq(whole, pieces, sizeof whole, "size %zu", size);
    }
}

/* Much data at once goes through the processor's own instructions where it has them, little pieces through C. */
Test(sha256, much_at_once_is_the_same)
{
    uint8_t data[9000], whole[32], pieces[32];
    struct mg_rng rng;
    mg_rng_init(&rng, 1);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)mg_rng_next(&rng);
    for (size_t size = 2000; size <= sizeof data; size += size < 2200 ? 1 : 61) {
        struct mg_sha256 hash;
        mg_sha256_init(&hash);
        mg_sha256_update(&hash, data, size % 3);
        mg_sha256_update(&hash, data + size % 3, size - size % 3);
        mg_sha256_final(&hash, whole);
        mg_sha256_init(&hash);
        for (size_t at = 0; at < size; at += 50)
            mg_sha256_update(&hash, data + at, at + 50 > size ? size - at : 50);
        mg_sha256_final(&hash, pieces);
        cr_assert_arr_eq(whole, pieces, sizeof whole, "size %zu", size);
    }
}

/* MurmurHash3_x64_128 as others compute it. */
Test(hash, known_answers)
{
    struct mg_hash128 h = mg_hash_bytes("", 0, 0);
    cr_assert(h.lo == 0 && h.hi == 0);
    h = mg_hash_bytes("hello", 5, 0);
    cr_assert_eq(h.lo, 0xcbd8a7b341bd9b02);
    cr_assert_eq(h.hi, 0x5b1e906a48ae1d19);
    h = mg_hash_bytes("The quick brown fox jumps over the lazy dog", 43, 0);
    cr_assert_eq(h.lo, 0xe34bbc7bbc071b6c);
    cr_assert_eq(h.hi, 0x7a433ca9c49a9347);
}

Test(hash, words_equal_little_endian_bytes)
{
    uint64_t words[9];
    uint8_t bytes[sizeof words];
    for (unsigned i = 0; i < 9; i++)
        words[i] = (i + 1) * 0x0123456789abcdefULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> (8 * (i % 8)));
    for (size_t count = 0; count <= 9; count++) {
        struct mg_hash128 a = mg_hash_words(words, count), b = mg_hash_bytes(bytes, count * 8, 0);
        cr_assert(a.lo == b.lo && a.hi == b.hi, "%zu words", count);
    }
}

Test(hash, every_bit_and_the_seed_matter)
{
    uint8_t data[33] = {0};
    for (size_t size = 1; size <= sizeof data; size++) {
        struct mg_hash128 base = mg_hash_bytes(data, size, 5), other = mg_hash_bytes(data, size, 6);
        cr_assert(base.lo != other.lo && base.hi != other.hi);
        for (size_t bit = 0; bit < size * 8; bit++) {
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            other = mg_hash_bytes(data, size, 5);
            cr_assert(base.lo != other.lo && base.hi != other.hi, "size %zu bit %zu", size, bit);
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

Test(hash, sums_carry)
{
    struct mg_hash128 a = {UINT64_MAX, 7}, b = {2, UINT64_MAX}, sum = mg_hash_add(a, b);
    cr_assert_eq(sum.lo, 1);
    cr_assert_eq(sum.hi, 7);
}

/* xoshiro256** from the state 1, 2, 3, 4 (published with the Rust crate), splitmix64 seeds. */
Test(rng, known_answers)
{
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240, 1216172134540287360};
    struct mg_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_assert_eq(mg_rng_next(&rng), expected[i]);
    mg_rng_init(&rng, 0);
    cr_assert_eq(rng.s[0], 0xe220a8397b1dcdaf);
    cr_assert_eq(rng.s[1], 0x6e789e6aa1b965f4);
}

Test(rng, stays_in_bounds_and_spreads)
{
    struct mg_rng rng;
    mg_rng_init(&rng, 42);
    int seen[7] = {0};
    double sum = 0;
    for (int i = 0; i < 70000; i++) {
        uint64_t value = mg_rng_below(&rng, 7);
        cr_assert_lt(value, 7);
        seen[value]++;
        double unit = mg_rng_unit(&rng);
        cr_assert(unit >= 0 && unit < 1);
        sum += unit;
    }
    for (int i = 0; i < 7; i++)
        cr_assert(seen[i] > 9500 && seen[i] < 10500, "%d came %d times", i, seen[i]);
    cr_assert(sum > 34500 && sum < 35500);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(mg_rng_below(&rng, 1), 0);
        cr_assert_lt(mg_rng_below(&rng, (1ULL << 63) + 1), (1ULL << 63) + 1);
    }
}
