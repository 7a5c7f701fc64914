// Hyperbolic functions of float32 and their inverses
//
// Polynomials are minimax fits; each says its largest relative error.

#include "division.glsl"
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
    large = with_sign_of(large, x);
    // NaN is no greater than anything.
    float small = fma(x * u, series, x), value = abs(x) >= 0.625 ? large : small;
    return x == 0.0 ? x : value;
}

// The same for results that are rounded to 2 bytes; relative error 2^-16.
float quick_tanh(float x) {
    float size = abs(x);
    float e = exp2(size * (-2.0 * LOG2_E));
    float large = (1.0 - e) * (1.0 / (1.0 + e));
    float small = size - size * size * size * 0.333333343;
    float value = with_sign_of(size < 0.0625 ? small : large, x);
    return any(bvec2(x == 0.0, x != x)) ? x : value;
}

// The same for results that are rounded to 2 bytes. The series, for |x| < 1, has a relative
// error of 2^-17.
float quick_sinh(float x) {
    float size = abs(x), u = x * x;
    float small = fma(x * u, polynomial(u, 0.166582137, 0.00861060806), x);
    float half_exp = exp2(fma(size, LOG2_E, -1.0));
    float large = with_sign_of(half_exp - 0.25 * (1.0 / half_exp), x);
    return any(bvec2(size < 1.0, x != x)) ? small : large;
}

float quick_cosh(float x) {
    float half_exp = exp2(fma(abs(x), LOG2_E, -1.0));
    float value = half_exp + 0.25 * (1.0 / half_exp);
    return x != x ? x : value;
}

float precise_asinh(float x) {
    float size = abs(x), u = x * x;
    // For |x| < 1/2; error 2^-33.
    float series = polynomial(u, 0.0300335698, -0.020049585, 0.0092566302);
    series = polynomial(u, -0.166666657, 0.0749990717, -0.0446160957, series);
    float small = fma(x * u, series, x);
    // Beyond 1e9, where the square overflows, the 1 does not count.
    float above = size + u / (1.0 + sqrt(1.0 + u));
    float large = log1p_or_eightfold(above, size, size > 1e9);
    large = with_sign_of(large, x);
    float value = size < 0.5 ? small : large;
    return any(bvec2(x == 0.0, !(size < INFINITE))) ? x : value;
}

float precise_acosh(float x) {
    float less = x - 1.0;
    float above = less + sqrt(fma(less, less, 2.0 * less));
    float value = log1p_or_eightfold(above, x, x > 1e9);
    float undefined = NOT_A_NUMBER;
    value = x < INFINITE ? value : x;
    return x < 1.0 ? undefined : value;
}

float precise_atanh(float x) {
    float size = abs(x), u = x * x;
    // For |x| < 1/2; error 2^-29.
    float series = polynomial(u, 0.118163861, 0.0516043603, 0.176378503);
    series = polynomial(u, 0.333333015, 0.20002453, 0.142237857, series);
    float small = fma(x * u, series, x);
    float large = 0.5 * log1p_in_range(2.0 * size / (1.0 - size));
    float undefined = NOT_A_NUMBER, infinite = INFINITE;
    float limit = size == 1.0 ? infinite : undefined;
    large = size < 1.0 ? large : limit;
    large = with_sign_of(large, x);
    return size < 0.5 ? small : large;
}

// The same for results that are rounded to 2 bytes; relative error 2^-16. Series are for
// |x| < 1/4, with errors of 2^-21 and 2^-19.
float quick_asinh(float x) {
    float size = abs(x), u = x * x;
    float small = fma(x * u, polynomial(u, -0.166596368, 0.0712974966), x);
    float root = sqrt(fma(x, x, 1.0));
    root = size > 1e9 ? size : root;
    // By half of it, which does not overflow
    float large = fma(log2(fma(0.5, root, 0.5 * size)), 0.693147182, 0.693147182);
    large = with_sign_of(large, x);
    float value = size < 0.25 ? small : large;
    return any(bvec2(x == 0.0, !(size < INFINITE))) ? x : value;
}

float quick_acosh(float x) {
    float root = sqrt(fma(x, x, -1.0));
    root = x > 1e9 ? x : root;
    float value = fma(log2(fma(0.5, root, 0.5 * x)), 0.693147182, 0.693147182);
    float undefined = NOT_A_NUMBER, limit = x == 1.0 ? 0.0 : undefined;
    value = x < INFINITE ? value : x;
    return x > 1.0 ? value : limit;
}

float quick_atanh(float x) {
    float size = abs(x), u = x * x;
    float small = fma(x * u, polynomial(u, 0.33307302, 0.213172674), x);
    float large = 0.346573591 * (log2(1.0 + size) - log2(1.0 - size));
    float undefined = NOT_A_NUMBER, infinite = INFINITE;
    float limit = size == 1.0 ? infinite : undefined;
    large = size < 1.0 ? large : limit;
    large = with_sign_of(large, x);
    float value = size < 0.25 ? small : large;
    return x == 0.0 ? x : value;
}

// log(x / (1 - x)), which is 2 atanh(2 x - 1)
float log_of_odds(float x) {
    return precise_log(rounded_quotient(x, 1.0 - x));
}

// Odds near 1 are 1 + (2 x - 1) / (1 - x), to more digits than they have themselves.
float quick_log_of_odds(float x) {
    float inverse = 1.0 / (1.0 - x), odds = x * inverse, f = fma(x, 2.0, -1.0) * inverse;
    float near = f * polynomial(f, 1.0, -0.5, 0.333333343, -0.25);
    float far = logarithm_or_limit(odds, log2(odds) * 0.693147182);
    return abs(f) < 0.03125 ? near : far;
}

#ifdef FLOAT64
#include "lib/double/hyperbolic.glsl"
#endif
