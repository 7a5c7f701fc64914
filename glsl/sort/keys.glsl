// Elements as bits, and the unsigned keys that are in the order of the elements
//
// The host defines BYTES (1, 2, 4 or 8: of an element), KIND, and INFINITY_BITS of a
// float (of its upper word, for 8 bytes). NaN is above every number, -0.0 equal to 0.0.
//
//   KEY                   uint, or uvec2 (low, high) of 8 bytes
//   BitsIn, BitsOut       elements in memory
//   load_bits, store_bits
//   sort_key(bits, descending)
//   LAST_KEY              no key is above it
//   key_bits(key, shift, count)
//                         `count` bits from `shift` on, which are of one word
//   precedes(a, at_a, b, at_b)
//                         keys in order, equal ones by their places

#define KIND_UNSIGNED 0
#define KIND_SIGNED 1
#define KIND_FLOAT 2

#ifndef BYTES
#define BYTES 4
#define KIND KIND_FLOAT
#define INFINITY_BITS 0x7f800000u
#endif

#if BYTES == 1
#extension GL_EXT_shader_8bit_storage : require
#define STORED uint8_t
#elif BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define STORED uint16_t
#elif BYTES == 4
#define STORED uint
#else
#define STORED uvec2
#endif

#if BYTES == 8
#define KEY uvec2
#define HIGH(bits) (bits).y
#define SIGN_BIT 0x80000000u
#define SIGN_KEY uvec2(0, SIGN_BIT)
#define LAST_KEY uvec2(~0u)
#else
#define KEY uint
#define HIGH(bits) (bits)
#define SIGN_BIT (1u << (8 * BYTES - 1))
#define SIGN_KEY SIGN_BIT
#define LAST_KEY (SIGN_BIT | (SIGN_BIT - 1u))
#endif

layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer BitsIn { STORED at[]; };
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict writeonly
    buffer BitsOut { STORED at[]; };

KEY load_bits(BitsIn elements, uint index) { return KEY(elements.at[index]); }
void store_bits(BitsOut elements, uint index, KEY bits) {
    elements.at[index] = STORED(bits);
}

KEY sort_key(KEY bits, bool descending) {
    KEY key = bits;
#if KIND == KIND_SIGNED
    key ^= SIGN_KEY;
#elif KIND == KIND_FLOAT
    uint size = HIGH(bits) & (SIGN_BIT - 1u);
#if BYTES == 8
    bool is_nan = size > INFINITY_BITS || (size == INFINITY_BITS && bits.x != 0u);
    bool is_zero = (size | bits.x) == 0u;
#else
    bool is_nan = size > INFINITY_BITS;
    bool is_zero = size == 0u;
#endif
    key = (HIGH(bits) & SIGN_BIT) != 0u ? ~bits & LAST_KEY : bits | SIGN_KEY;
    if (is_zero) key = SIGN_KEY;
    if (is_nan) key = LAST_KEY;
#endif
    return descending ? ~key & LAST_KEY : key;
}

uint key_bits(KEY key, uint shift, uint count) {
#if BYTES == 8
    return bitfieldExtract(shift < 32u ? key.x : key.y, int(shift % 32u), int(count));
#else
    return bitfieldExtract(key, int(shift), int(count));
#endif
}

bool precedes(KEY a, uint at_a, KEY b, uint at_b) {
#if BYTES == 8
    if (a.y != b.y) return a.y < b.y;
    if (a.x != b.x) return a.x < b.x;
#else
    if (a != b) return a < b;
#endif
    return at_a < at_b;
}
