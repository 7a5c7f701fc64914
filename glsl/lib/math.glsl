// Functions whose GLSL built-in is undefined or inaccurate where NumPy's is not

// pow is undefined for x < 0 and for x = 0 with y <= 0 (GLSL 4.60 specification, 8.2).
// Special cases as in C, F.10.4.4.
float power(float x, float y) {
    if (y == 2.0) return x * x;
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return uintBitsToFloat(0x7fc00000u);
    float size = pow(abs(x), y);
    if (x == 0.0) size = y > 0.0 ? 0.0 : uintBitsToFloat(0x7f800000u);
    if (x == -1.0) size = 1.0;
    bool whole = floor(y) == y;
    bool odd = whole && abs(y) < 16777216.0 && mod(y, 2.0) == 1.0;
    if (odd) return uintBitsToFloat(floatBitsToUint(size) | floatBitsToUint(x) & 1u << 31);
    return x < 0.0 && !whole && !isinf(x) ? uintBitsToFloat(0x7fc00000u) : size;
}

// A quotient of exponentials overflows beyond 44; the result is 1 to float32 from 9.1 on.
float hyperbolic_tangent(float x) {
    return x != x ? x : tanh(clamp(x, -15.0, 15.0));
}

float logistic(float x) {
    float e = exp(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
