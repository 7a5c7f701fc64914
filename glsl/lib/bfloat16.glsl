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

uint pack_bfloat16(float low, float high) {
    return near_bfloat16(low) >> 16 | near_bfloat16(high) & 0xffff0000u;
}
