// Functions whose GLSL built-in is undefined or inaccurate where NumPy's is not

// pow is undefined for x < 0 and for x = 0 with y <= 0 (GLSL 4.60 specification, 8.2).
float power(float x, float y) {
    float size = y == 0.0 ? 1.0 : pow(abs(x), y);
    if (x == 0.0) size = y == 0.0 ? 1.0 : y > 0.0 ? 0.0 : 1.0 / abs(x);
    bool whole = floor(y) == y;
    bool odd = whole && abs(y) < 16777216.0 && mod(y, 2.0) == 1.0;
    if (x < 0.0) return whole ? (odd ? -size : size) : uintBitsToFloat(0x7fc00000u);
    return x != x && y != 0.0 ? x : size;
}

// A quotient of exponentials overflows beyond 44; the result is 1 to float32 from 9.1 on.
float hyperbolic_tangent(float x) {
    return x != x ? x : tanh(clamp(x, -15.0, 15.0));
}

float logistic(float x) {
    float e = exp(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
