/* CRC-32C (Castagnoli) of bytes, by the processor's instruction where it has one.

   The instruction has a latency of three cycles, so three neighbouring stripes are summed at a time and joined:
   appending n zero bytes to a checksum is linear, hence four look-ups in tables made once per stripe length.
   Whether the processor has the instruction is asked when the tables are made; a table of the plain algorithm
   serves where it has not, and where the instruction's answer to a known question is wrong. */

#ifndef KCOORD_CRC32C_H
#define KCOORD_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <nmmintrin.h>
#define KCOORD_CRC_TARGET __attribute__((target("sse4.2")))
#define KCOORD_CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define KCOORD_CRC_BYTE(crc, byte) _mm_crc32_u8((crc), (byte))
static int kcoord_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(_M_X64)
#include <intrin.h>
#include <nmmintrin.h>
#define KCOORD_CRC_TARGET
#define KCOORD_CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define KCOORD_CRC_BYTE(crc, byte) _mm_crc32_u8((crc), (byte))
static int kcoord_has_instruction(void) {
    int registers[4];
    __cpuid(registers, 1);
    return (registers[2] >> 20) & 1;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define KCOORD_CRC_TARGET
#define KCOORD_CRC_WORD(crc, word) __crc32cd((crc), (word))
#define KCOORD_CRC_BYTE(crc, byte) __crc32cb((crc), (byte))
static int kcoord_has_instruction(void) { return 1; }
#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("+crc")
#include <arm_acle.h>
#pragma GCC pop_options
#include <sys/auxv.h>
#define KCOORD_CRC_TARGET __attribute__((target("+crc")))
#define KCOORD_CRC_WORD(crc, word) __crc32cd((crc), (word))
#define KCOORD_CRC_BYTE(crc, byte) __crc32cb((crc), (byte))
static int kcoord_has_instruction(void) { return (int)((getauxval(AT_HWCAP) >> 7) & 1); }
#endif

#define KCOORD_LONG_STRIPE 2048
#define KCOORD_SHORT_STRIPE 128

static uint32_t kcoord_by_byte[256];
#ifdef KCOORD_CRC_WORD
static uint32_t kcoord_past_long[4][256];
static uint32_t kcoord_past_short[4][256];
#endif
static int kcoord_crc_by_instruction = 0;

static uint32_t kcoord_crc_of_table(uint32_t crc, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) crc = (crc >> 8) ^ kcoord_by_byte[(crc ^ data[i]) & 0xff];
    return crc;
}

#ifdef KCOORD_CRC_WORD
static uint64_t kcoord_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

static uint32_t kcoord_past(uint32_t tables[4][256], uint32_t crc) {
    return tables[0][crc & 0xff] ^ tables[1][(crc >> 8) & 0xff] ^ tables[2][(crc >> 16) & 0xff] ^ tables[3][crc >> 24];
}

/* Fills in what each byte of a checksum becomes when `zeros` zero bytes follow. */
static void kcoord_make_past(uint32_t tables[4][256], size_t zeros) {
    static const uint8_t zero[KCOORD_LONG_STRIPE] = {0};
    for (int place = 0; place < 4; place++) {
        tables[place][0] = 0;
        for (uint32_t byte = 1; byte < 256; byte++) {
            uint32_t rest = byte & (byte - 1), lowest = byte ^ rest;
            tables[place][byte] = rest ? tables[place][rest] ^ tables[place][lowest]
                                       : kcoord_crc_of_table(byte << (8 * place), zero, zeros);
        }
    }
}

KCOORD_CRC_TARGET static const uint8_t *kcoord_stripes(
    uint32_t *crc, const uint8_t *data, const uint8_t *end, size_t stripe, uint32_t tables[4][256]) {
    while ((size_t)(end - data) >= 3 * stripe) {
        uint32_t first = *crc, second = 0, third = 0;
        for (const uint8_t *stop = data + stripe; data < stop; data += 8) {
            first = KCOORD_CRC_WORD(first, kcoord_word(data));
            second = KCOORD_CRC_WORD(second, kcoord_word(data + stripe));
            third = KCOORD_CRC_WORD(third, kcoord_word(data + 2 * stripe));
        }
        *crc = kcoord_past(tables, kcoord_past(tables, first) ^ second) ^ third;
        data += 2 * stripe;
    }
    return data;
}

KCOORD_CRC_TARGET static uint32_t kcoord_crc_of_instruction(uint32_t crc, const uint8_t *data, size_t size) {
    const uint8_t *end = data + size;
    data = kcoord_stripes(&crc, data, end, KCOORD_LONG_STRIPE, kcoord_past_long);
    data = kcoord_stripes(&crc, data, end, KCOORD_SHORT_STRIPE, kcoord_past_short);
    for (; end - data >= 8; data += 8) crc = KCOORD_CRC_WORD(crc, kcoord_word(data));
    for (; data < end; data++) crc = KCOORD_CRC_BYTE(crc, *data);
    return crc;
}
#endif

/* Makes the tables; call it once, before the first checksum. */
static void kcoord_crc32c_start(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
        kcoord_by_byte[byte] = crc;
    }
#ifdef KCOORD_CRC_WORD
    if (kcoord_has_instruction()) {
        static uint8_t question[3 * KCOORD_LONG_STRIPE + 3 * KCOORD_SHORT_STRIPE + 13];
        for (size_t i = 0; i < sizeof question; i++) question[i] = (uint8_t)(i * 31 + (i >> 8));
        kcoord_make_past(kcoord_past_long, KCOORD_LONG_STRIPE);
        kcoord_make_past(kcoord_past_short, KCOORD_SHORT_STRIPE);
        kcoord_crc_by_instruction = kcoord_crc_of_instruction(~0u, question, sizeof question) ==
                                    kcoord_crc_of_table(~0u, question, sizeof question);
    }
#endif
}

static int kcoord_crc32c_is_by_instruction(void) { return kcoord_crc_by_instruction; }

static uint32_t kcoord_crc32c_by_table(const uint8_t *data, size_t size) {
    return ~kcoord_crc_of_table(~0u, data, size);
}

static uint32_t kcoord_crc32c(const uint8_t *data, size_t size) {
#ifdef KCOORD_CRC_WORD
    if (kcoord_crc_by_instruction) return ~kcoord_crc_of_instruction(~0u, data, size);
#endif
    return kcoord_crc32c_by_table(data, size);
}

#endif
