// Quotients, and those and square roots that are rounded once, as IEEE 754 has them
// source  Markstein, "Computation of elementary functions on the IBM RISC System/6000
//         processor", 1990: a quotient corrected by its remainder; Dekker, "A
//         floating-point technique for extending the available precision", 1971: exact
//         products; Vulkan allows quotients an error of 2.5 ulp
//
// Two roots of a million are rounded the other way. Denormal numbers, which some devices
// take for 0, are as the device has them.
// ROUNDED_QUOTIENTS is set where the device's own are rounded once, FUSED_MULTIPLY_ADD
// where `fma` is.

#include "lib/opaque_zero.glsl"
#include "power_of_two.glsl"
#include "upper_half.glsl"

// Some devices make 0 of 1 / y, and so of x / y, for the largest y.
float divided(float x, float y) {
    float scale = abs(y) > 4.25352959e+37 ? 0.25 : 1.0;
    return (x * scale) / (unknown(y) * scale);
}

#ifndef ROUNDED_QUOTIENTS
// x - a * b, exact but for the last bits of what is left
float rest_of_product(float x, float a, float b) {
#ifdef FUSED_MULTIPLY_ADD
    precise float rest = fma(-a, b, x);
    return rest;
#else
    precise float a_high = upper_half(a), a_low = a - a_high;
    precise float b_high = upper_half(b), b_low = b - b_high;
    precise float rest = x - a_high * b_high;
    rest = rest - a_high * b_low - a_low * b_high - a_low * b_low;
    return rest;
#endif
}

// x + rest * factor: x with a correction that is small beside it
float corrected(float x, float rest, float factor) {
    precise float sum = fma(rest, factor, x);
    return sum;
}

// Quotients are near where neither they nor what is computed on the way are denormal
// numbers or too large: of NEAR_LEAST to 2^60 by 2^-40 to 2^40. Parts of products are
// smaller than products.
#ifdef FUSED_MULTIPLY_ADD
#define NEAR_LEAST 8.27180613e-25  // 2^-80
#else
#define NEAR_LEAST 8.67361738e-19  // 2^-60
#endif

// The inverse of y is computed once for many x.
float near_quotient(float x, float y) {
    precise float inverse = 1.0 / y;
    inverse = corrected(inverse, rest_of_product(1.0, inverse, y), inverse);
    precise float quotient = x * inverse;
    return corrected(quotient, rest_of_product(x, quotient, y), inverse);
}

bool is_normal(float x) {
    uint exponent = floatBitsToUint(x) & 0x7f800000u;
    return exponent != 0u && exponent != 0x7f800000u;
}

// x / 2^exponent, at least 1 and less than 2, with its sign
float significand(float x) {
    return uintBitsToFloat((floatBitsToUint(x) & 0x807fffffu) | 0x3f800000u);
}

// The quotient by significands, exponents apart
float far_quotient(float x, float y) {
    if (!is_normal(x) || !is_normal(y)) return divided(x, y);
    int exponent = int(floatBitsToUint(x) >> 23 & 0xffu);
    exponent -= int(floatBitsToUint(y) >> 23 & 0xffu);
    float quotient = near_quotient(significand(x), significand(y));
    return times_power_of_two(quotient, clamp(float(exponent), -200.0, 200.0));
}
#endif

float rounded_quotient(float x, float y) {
#ifdef ROUNDED_QUOTIENTS
    return divided(x, y);
#else
    float quotient = near_quotient(x, y);
    if (!(abs(x) > NEAR_LEAST && abs(x) < 1.15292150e+18 &&
          abs(y) > 9.09494702e-13 && abs(y) < 1.09951163e+12))
        quotient = far_quotient(x, y);
    return quotient;
#endif
}

float rounded_root(float x) {
#ifdef ROUNDED_QUOTIENTS
    return sqrt(x);
#else
    // By 2^64, so that the remainder is no denormal number, nor products of its parts.
    float up = x < 1.08420217e-19 ? 1.84467441e+19 : 1.0;
    float down = x < 1.08420217e-19 ? 2.32830644e-10 : 1.0;
    if (x > 1e+37) {
        up = 5.42101086e-20;
        down = 4.29496730e+09;
    }
    if (!is_normal(x)) return sqrt(x);
    float scaled = x * up;
    float root = sqrt(scaled);
    return corrected(root, rest_of_product(scaled, root, root), 0.5 / root) * down;
#endif
}

#ifdef FLOAT64
double divided(double x, double y) {
    return x / unknown(y);
}

double rounded_quotient(double x, double y) {
    return divided(x, y);
}

double rounded_root(double x) {
    return sqrt(x);
}
#endif
