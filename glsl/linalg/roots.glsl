// Roots, reciprocals and quotients of REAL, on which others wait
//
// The includer includes linalg/real.glsl. Those of float64 that drivers have take hundreds
// of cycles on GPUs; these begin with float32's, and end with one step of third order.
//
// source  Householder, "The Numerical Treatment of a Single Nonlinear Equation", 1970

#ifdef DOUBLE
double power_of_two(uint exponent) { return packDouble2x32(uvec2(0u, exponent << 20)); }

// 1 / x, to a unit in the last place
double reciprocal(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint exponent = bits.y >> 20 & 0x7ffu;
    // What is subnormal, or whose reciprocal is, or no number
    if (exponent == 0u || exponent > 2044u) return 1.0LF / x;
    double part = packDouble2x32(uvec2(bits.x, (bits.y & 0x800fffffu) | 0x3ff00000u));
    double y = double(1.0 / float(part));
    double error = fma(-part, y, 1.0LF);
    y = fma(fma(error, error, error), y, y);
    return y * power_of_two(2046u - exponent);
}

// The root of x, and its reciprocal, to a unit in the last place
void roots(double x, out double root, out double inverse) {
    uvec2 bits = unpackDouble2x32(x);
    uint exponent = bits.y >> 20;
    // What is subnormal, negative, or no number
    if (exponent == 0u || exponent > 2046u) {
        root = sqrt(x);
        inverse = 1.0LF / root;
        return;
    }
    uint odd = (exponent + 1u) % 2u;
    double part = packDouble2x32(uvec2(bits.x, (bits.y & 0xfffffu) | (1023u + odd) << 20));
    double y = double(inversesqrt(float(part)));
    double error = fma(-part * y, y, 1.0LF);
    y = fma(y * error, fma(error, 0.375LF, 0.5LF), y);
    inverse = y * power_of_two((3069u + odd - exponent) / 2u);
    root = x * inverse;
    root = fma(fma(-root, root, x), 0.5LF * inverse, root);
}

// x / y, given 1 / y
double quotient(double x, double y, double inverse) {
    uint exponent = unpackDouble2x32(y).y >> 20 & 0x7ffu;
    if (exponent == 0u || exponent > 2044u) return x / y;
    double found = x * inverse;
    return fma(fma(-found, y, x), inverse, found);
}
#else
float reciprocal(float x) { return 1.0 / x; }

void roots(float x, out float root, out float inverse) {
    root = sqrt(x);
    inverse = 1.0 / root;
}

float quotient(float x, float y, float inverse) { return x / y; }
#endif
