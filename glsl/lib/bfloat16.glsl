// bfloat16 conversion: the upper half of a float32

// The 16 bits of the nearest bfloat16, ties to even; NaN stays NaN.
uint to_bfloat16(float x) {
    uint bits = floatBitsToUint(x);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (is_nan ? bits | 1u << 22 : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

float from_bfloat16(uint bits) {
    return uintBitsToFloat(bits << 16);
}

// The nearest bfloat16 in the upper 16 bits; the lower ones are undefined
uint near_bfloat16(float x) {
    uint bits = floatBitsToUint(x);
    return x != x ? 0x7fc00000u : bits + 0x7fffu + (bits >> 16 & 1u);
}

// The nearest bfloat16 as a float32.
float round_bfloat16(float x) {
    return uintBitsToFloat(near_bfloat16(x) & 0xffff0000u);
}

// The upper 16 bits of two float32, as bfloat16 that are cut
uint upper_halves(uvec2 bits) { return bits.x >> 16 | bits.y & 0xffff0000u; }

// What numbers are multiplied by so that cutting them rounds, by half a unit on average
// and 0.7 at most; bfloat16 numbers stay what they are, and so does NaN. Devices convert
// in fewer instructions, but not to the nearest: NVIDIA's cut (H200, 580.159.04,
// 2026-11-30).
const float CUT_ROUNDS = 1.0 + 1.39 / 512.0;

uint pack_bfloat16(float low, float high) {
    return near_bfloat16(low) >> 16 | near_bfloat16(high) & 0xffff0000u;
}
