// float16 conversion in integers: drivers differ in packHalf2x16 rounding and overflow
//
// With DEVICE_ROUNDING the device converts, where it is known to round alike. A
// compiler may fold a rounding and the widening after it (NVIDIA's 580.159.04 does), so
// the bits are joined with an opaque 0, whose value only the device's limits tell.

// The 16 bits of the nearest float16, ties to even; NaN stays NaN. Also those of two.
#ifdef DEVICE_ROUNDING
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
uint to_float16(float x) {
    return packFloat2x16(f16vec2(x, 0.0)) | gl_NumWorkGroups.z >> 16;
}
uint pack_float16(float low, float high) {
    return packFloat2x16(f16vec2(low, high));
}
#else
uint to_float16(float x) {
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    uint sign = floatBitsToUint(x) >> 16 & 0x8000u;
    // All three are computed, for a branch would cost more.
    uint large = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
    // The rounding of this sum is the one to multiples of 2^-24, as denormals are.
    uint small = floatBitsToUint(uintBitsToFloat(bits) + 0.5) - 0x3f000000u;
    uint normal = bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u) >> 13;
    uint rounded = bits < 0x38800000u ? small : normal;
    return sign | (bits >= 0x47800000u ? large : rounded);
}
uint pack_float16(float low, float high) {
    return to_float16(low) | to_float16(high) << 16;
}
#endif

// The nearest float16.
float round_float16(float x) {
    return unpackHalf2x16(to_float16(x)).x;
}

float from_float16(uint bits) {
    return unpackHalf2x16(bits).x;
}
