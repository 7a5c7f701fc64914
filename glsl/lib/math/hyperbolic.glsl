// Hyperbolic functions of float32 and their inverses
//
// Polynomials are minimax fits; each says its largest relative error.

#include "exponential.glsl"

float precise_sinh(float x) {
    float u = x * x;
    // For |x| < 1; error 2^-31.
    float series = polynomial(u, 0.00833331048, 0.000198428956, 2.78221319e-06);
    float small = fma(x * u, polynomial(u, 0.166666672, series), x);
    float half_exp = scaled_exp(abs(x), -1.0);
    float large = half_exp - 0.25 / half_exp;
    return abs(x) < 1.0 || x != x ? small : x < 0.0 ? -large : large;
}

float precise_cosh(float x) {
    float half_exp = scaled_exp(abs(x), -1.0);
    return half_exp + 0.25 / half_exp;
}

float precise_tanh(float x) {
    float u = x * x;
    // For |x| < 5/8; error 2^-32.
    float series = polynomial(u, 0.0217070803, -0.00819074083, 0.00215358566);
    series = polynomial(u, -0.333333313, 0.133332208, -0.0539481938, series);
    // From 10 on it is 1.
    float n, rest = reduce_exponent(min(2.0 * abs(x), 20.0), n);
    float power = power_of_two(n);
    float large = 1.0 - 2.0 / fma(power, expm1_near_zero(rest), power + 1.0);
    large = x < 0.0 ? -large : large;
    // NaN is no greater than anything.
    return x == 0.0 ? x : abs(x) >= 0.625 ? large : fma(x * u, series, x);
}

// The same for results that are rounded to 2 bytes; relative error 2^-16.
float quick_tanh(float x) {
    float size = abs(x);
    float e = exp2(size * (-2.0 * LOG2_E));
    float large = (1.0 - e) * (1.0 / (1.0 + e));
    float value = size < 0.0625 ? size - size * size * size * 0.333333343 : large;
    return x == 0.0 || x != x ? x : x < 0.0 ? -value : value;
}

float precise_asinh(float x) {
    float size = abs(x), u = x * x;
    // For |x| < 1/2; error 2^-33.
    float series = polynomial(u, 0.0300335698, -0.020049585, 0.0092566302);
    series = polynomial(u, -0.166666657, 0.0749990717, -0.0446160957, series);
    float large = precise_log1p(size + u / (1.0 + sqrt(1.0 + u)));
    // Beyond, the square overflows and the 1 does not count.
    if (size > 1e9) large = precise_log(size) + 0.693147182;
    large = x < 0.0 ? -large : large;
    return x == 0.0 ? x : size < 0.5 ? fma(x * u, series, x) : large;
}

float precise_acosh(float x) {
    float above = x - 1.0;
    float value = precise_log1p(above + sqrt(2.0 * above + above * above));
    if (x > 1e9) value = precise_log(x) + 0.693147182;
    return x >= 1.0 ? value : NOT_A_NUMBER;
}

float precise_atanh(float x) {
    float size = abs(x), u = x * x;
    // For |x| < 1/2; error 2^-29.
    float series = polynomial(u, 0.118163861, 0.0516043603, 0.176378503);
    series = polynomial(u, 0.333333015, 0.20002453, 0.142237857, series);
    float large = 0.5 * precise_log1p(2.0 * size / (1.0 - size));
    large = size == 1.0 ? INFINITE : size > 1.0 ? NOT_A_NUMBER : large;
    large = x < 0.0 ? -large : large;
    return size < 0.5 ? fma(x * u, series, x) : large;
}

#ifdef FLOAT64
#include "lib/double/hyperbolic.glsl"
#endif
