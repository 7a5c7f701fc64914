// Counter-based random numbers: Philox4x32-10
//
// Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
// Known answers of Random123 (counter; key -> result):
//   00000000 00000000 00000000 00000000; 00000000 00000000
//     -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8
//   ffffffff ffffffff ffffffff ffffffff; ffffffff ffffffff
//     -> 408f276d 41c83b0e a20bc7c6 6d5451fd
//   243f6a88 85a308d3 13198a2e 03707344; a4093822 299f31d0
//     -> d16cfe09 94fdcceb 5001e420 24126ea1

#include "math/exponential.glsl"

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0; round < 10; ++round) {
        uint high_0, low_0, high_1, low_1;
        umulExtended(0xD2511F53u, counter.x, high_0, low_0);
        umulExtended(0xCD9E8D57u, counter.z, high_1, low_1);
        counter = uvec4(
            high_1 ^ counter.y ^ key.x, low_1, high_0 ^ counter.w ^ key.y, low_0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

// Four draws of a call: block number `block` of the stream that key and call name.
uvec4 random_bits(uint block, uvec2 key, uvec2 call) {
    return philox(uvec4(block, call, 0u), key);
}

// The upper 24 bits as a multiple of 2^-24 in [0, 1): every value is exact.
vec4 unit_interval(uvec4 bits) {
    return vec4(bits >> 8) * (1.0 / 16777216.0);
}

vec4 random_uniform(uint block, uvec2 key, uvec2 call) {
    return unit_interval(random_bits(block, key, call));
}

// -log(x) for x from 2^-24 to 1, to float32's precision also near 1, where GLSL's log may be
// off by 2^-21
float negative_log(float x) {
    float n;
    float f = reduce_normal(x, n);
    return -logarithm(f, n);
}

vec4 random_exponential(uint block, uvec2 key, uvec2 call) {
    vec4 u = 1.0 - random_uniform(block, key, call);
    return vec4(negative_log(u.x), negative_log(u.y), negative_log(u.z), negative_log(u.w));
}

// (cos, sin) of an angle in turns in [0, 1). The reduction to an eighth of a turn is
// exact, and GLSL's cos and sin may be off by 2^-11.
vec2 circle(float turns) {
    // The quarter in the lowest bits
    precise float bits = fma(turns, 4.0, TO_BITS);
    uint quarter = floatBitsToUint(bits);
    precise float whole = bits - TO_BITS;
    float t = fma(whole, -0.25, turns) * 6.28318531, z = t * t;
    float s = polynomial(z, 1.0, -0.166666672, 0.00833333377, -0.000198412701) * t;
    float c = polynomial(z, 0.0416666679, -0.00138888892, 2.48015876e-05);
    c = fma(z, fma(z, c, -0.5), 1.0);
    bool odd = (quarter & 1u) != 0u;
    // Both change their signs with a quarter's second bit; the first one changes it too
    // where the two change places.
    uint across = floatBitsToUint(odd ? s : c) ^ (quarter + 1u & 2u) << 30;
    uint up = floatBitsToUint(odd ? c : s) ^ (quarter & 2u) << 30;
    return vec2(uintBitsToFloat(across), uintBitsToFloat(up));
}

// Box and Muller, A Note on the Generation of Random Normal Deviates, 1958: elements
// 0 and 1 come from draws 0 and 1, elements 2 and 3 from draws 2 and 3.
vec4 random_normal(uint block, uvec2 key, uvec2 call) {
    vec4 u = random_uniform(block, key, call);
    float first = sqrt(2.0 * negative_log(1.0 - u.x));
    float second = sqrt(2.0 * negative_log(1.0 - u.z));
    return vec4(first * circle(u.y), second * circle(u.w));
}

// A number below `span` from 32 bits; 0 stands for 2^32. Lemire, Fast Random Integer
// Generation in an Interval, 2019, without the rejection: the bias is below span / 2^32.
uint below(uint bits, uint span) {
    uint high, low;
    umulExtended(bits, span, high, low);
    return span == 0u ? bits : high;
}
