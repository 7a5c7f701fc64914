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

// -log(x) for x in (0, 1], to float32's precision also near 1, where GLSL's log may be
// off by 2^-21. With x = m 2^e, log m = 2 atanh s for s = (m - 1) / (m + 1).
vec4 negative_log(vec4 x) {
    ivec4 exponent;
    vec4 m = frexp(x, exponent);
    bvec4 low = lessThan(m, vec4(0.70710678));
    m = mix(m, 2.0 * m, low);
    vec4 e = vec4(exponent) - vec4(low);
    vec4 s = (m - 1.0) / (m + 1.0);
    vec4 z = s * s;
    vec4 tail = z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * (1.0 / 9.0))));
    return -(e * 0.69314718 + 2.0 * (s + s * tail));
}

vec4 random_exponential(uint block, uvec2 key, uvec2 call) {
    return negative_log(1.0 - random_uniform(block, key, call));
}

// (cos, sin) of two angles in turns in [0, 1). The reduction to an eighth of a turn is
// exact, and GLSL's cos and sin may be off by 2^-11.
vec4 circle(vec2 turns) {
    vec2 quarter = floor(4.0 * turns + 0.5);
    vec2 t = (turns - 0.25 * quarter) * 6.28318531;
    vec2 z = t * t;
    vec2 s = t * (1.0 + z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0))));
    vec2 c = 1.0 + z * (-0.5 + z * (1.0 / 24.0 + z * (-1.0 / 720.0 + z / 40320.0)));
    ivec2 q = ivec2(quarter) & 3;
    bvec2 odd = equal(q & 1, ivec2(1));
    vec2 across = mix(c, s, odd);
    vec2 up = mix(s, c, odd);
    across = mix(across, -across, bvec2(q.x == 1 || q.x == 2, q.y == 1 || q.y == 2));
    up = mix(up, -up, greaterThan(q, ivec2(1)));
    return vec4(across.x, up.x, across.y, up.y);
}

// Box and Muller, A Note on the Generation of Random Normal Deviates, 1958: elements
// 0 and 1 come from draws 0 and 1, elements 2 and 3 from draws 2 and 3.
vec4 random_normal(uint block, uvec2 key, uvec2 call) {
    vec4 u = random_uniform(block, key, call);
    vec4 radius = sqrt(2.0 * negative_log(1.0 - u.xxzz));
    return radius * circle(u.yw);
}

// A number below `span` from 32 bits; 0 stands for 2^32. Lemire, Fast Random Integer
// Generation in an Interval, 2019, without the rejection: the bias is below span / 2^32.
uint below(uint bits, uint span) {
    uint high, low;
    umulExtended(bits, span, high, low);
    return span == 0u ? bits : high;
}
