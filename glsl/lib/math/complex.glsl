// Arithmetic of complex numbers: real part first
//
// Quotients and magnitudes scale their operands, so that nothing overflows before the
// result does.

vec2 complex_product(vec2 x, vec2 y) {
    return vec2(fma(x.x, y.x, -(x.y * y.y)), fma(x.x, y.y, x.y * y.x));
}

// Source: Smith, "Algorithm 116: Complex division", CACM 1962.
vec2 complex_quotient(vec2 x, vec2 y) {
    bool wide = abs(y.x) >= abs(y.y);
    float large = wide ? y.x : y.y, small = wide ? y.y : y.x;
    float ratio = large == 0.0 ? 0.0 : small / large;
    float divisor = large + small * ratio;
    vec2 first = wide ? x : vec2(x.y, -x.x), second = wide ? vec2(x.y, -x.x) : x;
    return (first + second * ratio) / divisor;
}

float complex_magnitude(vec2 x) {
    float large = max(abs(x.x), abs(x.y)), small = min(abs(x.x), abs(x.y));
    if (isinf(x.x) || isinf(x.y)) return uintBitsToFloat(0x7f800000u);
    if (x.x != x.x || x.y != x.y) return x.x + x.y;
    float ratio = large == 0.0 ? 0.0 : small / large;
    return large * sqrt(fma(ratio, ratio, 1.0));
}

vec2 complex_sign(vec2 x) {
    float size = complex_magnitude(x);
    return size == 0.0 ? vec2(0) : x / size;
}

// The principal root, with a real part of at least 0
vec2 complex_root(vec2 x) {
    float size = complex_magnitude(x);
    if (size == 0.0) return vec2(0.0, x.y);
    float root = sqrt(0.5 * size + 0.5 * abs(x.x));
    float other = abs(x.y) / (2.0 * root);
    vec2 value = x.x >= 0.0 ? vec2(root, other) : vec2(other, root);
    return vec2(value.x, floatBitsToUint(x.y) >> 31 != 0u ? -value.y : value.y);
}
