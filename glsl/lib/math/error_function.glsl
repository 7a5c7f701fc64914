// Error function of float32, erfc, the normal distribution and gelu
//
// Polynomials are minimax fits; each says its largest error.

#include "exponential.glsl"

// For |x| <= 1; relative error 2^-29.
float erf_near_zero(float x) {
    float u = x * x;
    float series = polynomial(u, 0.0051871622, -0.00079978531, 7.80690316e-05);
    series = polynomial(u, -0.37612626, 0.112835787, -0.0268533472, series);
    // Tiny products would be lost where denormal numbers count as 0.
    float tiny = x * 1.12837917, value = fma(x, polynomial(u, 0.128379166, series), x);
    return abs(x) < 1e-20 ? tiny : value;
}

float precise_erf(float x) {
    float size = min(abs(x), 4.0);
    // -log(1 - erf(x)) for 0.9 <= x <= 4; the error of erf is 2^-34.
    float series = polynomial(size, 0.00416042143, -0.000432273315, 2.09062382e-05);
    series = polynomial(size, 0.633386731, 0.10823644, -0.0250913072, series);
    series = polynomial(size, -0.000170552026, 1.12949514, series);
    float n, rest = reduce_exponent(-series, n);
    float power = power_of_two(n);
    float large = fma(-power, expm1_near_zero(rest), 1.0 - power);
    large = with_sign_of(large, x);
    float small = erf_near_zero(x), value = abs(x) < 0.9375 ? small : large;
    return x != x ? x : value;
}

float precise_erfc(float x) {
    float size = min(abs(x), 11.0);
    // (1 + 2 x) exp(x^2) erfc(x) for 0.45 <= x <= 10.1, in (x - 2) / (x + 2);
    // relative error 2^-27.
    float one = 1.0 + 2.0 * size, two = size + 2.0;
    // One division serves both.
    float inverse = 1.0 / (one * two);
    float t = (size - 2.0) * (one * inverse);
    float series = polynomial(t, 0.00117907359, -0.00126320834, -0.000264284026);
    series = polynomial(t, -0.0542132184, -0.00801536627, 0.00866162498, series);
    series = polynomial(t, -0.0927638113, -0.166030496, 0.164049923, series);
    series = polynomial(t, 1.27697837, series);
    // The square in two parts
#ifdef FUSED_MULTIPLY_ADD
    precise float square = size * size;
    precise float rest = fma(size, size, -square);
#else
    precise float high = upper_half(size), square = high * high;
    precise float rest = (size - high) * (size + high);
#endif
    // n + 64 in the lowest bits
    float bits = fma(square, -1.44269502, TO_BITS + 64.0);
    precise float n = bits - (TO_BITS + 64.0);
    float reduced = fma(n, -LN2_HIGH, -square) - rest;
    float bell = 1.0 + expm1_near_zero(fma(n, -LN2_LOW, reduced));
    float power = uintBitsToFloat((floatBitsToUint(bits) << 23) + 0x3f800000u);
    // 1 / one, with what the roundings lost.
    float share = two * inverse;
    share = fma(share, fma(-share, one, 1.0), share);
    float tail = bell * power * series * share * LOWER;
    float left = 2.0 - tail, inner = 1.0 - erf_near_zero(x);
    float value = x < 0.0 ? left : tail;
    value = abs(x) < 0.5 ? inner : value;
    return x != x ? x : value;
}

// exp(x^2) erfc(x) for x >= 0.5
float large_erfcx(float x) {
    float inverse = 1.0 / x;
    if (x > 10.0) {
        float square = inverse * inverse;
        return inverse * polynomial(square, 0.564189584, -0.282094792, 0.423142188, -1.05785547);
    }
    // The polynomial of `precise_erfc`
    float one = 1.0 + 2.0 * x, t = (x - 2.0) / (x + 2.0);
    float series = polynomial(t, 0.00117907359, -0.00126320834, -0.000264284026);
    series = polynomial(t, -0.0542132184, -0.00801536627, 0.00866162498, series);
    series = polynomial(t, -0.0927638113, -0.166030496, 0.164049923, series);
    return polynomial(t, 1.27697837, series) / one;
}

// exp(x^2) erfc(x)
float precise_erfcx(float x) {
    if (x != x) return x;
    float size = abs(x);
    if (size < 0.5) return precise_exp(x * x) * (1.0 - erf_near_zero(x));
    if (x > 0.0) return large_erfcx(x);
    if (size > 9.4) return INFINITE;
    // The square in two parts, the first of which is exact.
    precise float high = upper_half(size);
    precise float rest = (size - high) * (size + high);
    float bell = precise_exp(high * high);
    return fma(2.0 * bell, 1.0 + precise_expm1(rest), -large_erfcx(size));
}

// P(-s) exp(s^2 / 2) for 0 <= s <= 14.5, where P(x) is the probability that a standard
// normal number is less than x; relative error 2^-26.
float mills(float s) {
    // (s + 3.6) times it, in (s - 3.6) / (s + 3.6)
    float inverse = 1.0 / (s + 3.6);
    float t = (s - 3.6) * inverse;
    float series = polynomial(t, 0.00047122917, 7.51810439e-05);
    series = polynomial(t, -0.00373655627, -0.000120932673, series);
    series = polynomial(t, -0.130249813, 0.0250416677, 0.0047926004, series);
    series = polynomial(t, 0.746886075, -0.574994445, 0.3308402, series);
    return series * inverse;
}

// 2^64 exp(-s^2 / 2) for 0 <= s <= 14.5; relative error 2^-28.
float raised_bell(float s) {
    // The square in two parts, the first of which is exact.
    float upper = upper_half(s), high = upper * upper;
    float low = (s - upper) * (s + upper);
    // n + 64 in the lowest bits
    float bits = fma(high, -0.721347511, TO_BITS + 64.0);
    precise float n = bits - (TO_BITS + 64.0);
    // exp(-rest / 2) = exp(-s^2 / 2) / 2^n
    float rest = fma(n, 2.0 * LN2_HIGH, high) + fma(n, 2.0 * LN2_LOW, low);
    float bell = polynomial(rest, 0.00260426663, -0.000261521171, 2.1594893e-05);
    bell = polynomial(rest, -0.5, 0.124999985, -0.0208331514, bell);
    bell = polynomial(rest, 1.0, bell);
    // In range until the end: n + 64 more in the exponent.
    return uintBitsToFloat(floatBitsToUint(bell) + (floatBitsToUint(bits) << 23));
}

const float FROM_RAISED = 5.42101086e-20;

// The height of the standard normal bell curve at 0
const float NORMAL_HEIGHT = 0.398942280;

// x, or -0.0 where its sign is negative. By its bits: lavapipe 22.3 takes a comparison
// of floats for their maximum, which may be -0.0 for 0.0.
float without_negative(float x) {
    return floatBitsToInt(x) >= 0 ? x : -0.0;
}

// x P(x): one path for all x, for it bounds how fast gelu is. That is
// max(x, 0) - |x| P(-|x|).
float normal_gate(float x) {
    // NaN may become 14.4 here.
    float size = min(abs(x), 14.4);
    float tail = raised_bell(size) * mills(size);
    float value = fma(-size * tail, FROM_RAISED, without_negative(x));
    return x > -INFINITE ? value : NOT_A_NUMBER;
}

// Its derivative, P(x) + x P'(x), which is 1 less of what it is at -x
float normal_slope(float x) {
    float size = min(abs(x), 14.4);
    float part = fma(size, -NORMAL_HEIGHT, mills(size));
    float value = raised_bell(size) * part * FROM_RAISED;
    return x != x ? x : x >= 0.0 ? 1.0 - value : value;
}

// The same three for results that are rounded to 2 bytes: half the instructions. Relative
// error 2^-18.8
float quick_mills(float s) {
    float inverse = 1.0 / (s + 3.6);
    float t = (s - 3.6) * inverse;
    float series = polynomial(t, 0.00488300342, -0.00277030631);
    series = polynomial(t, -0.130293876, 0.0245681927, series);
    series = polynomial(t, 0.746884465, -0.57499218, 0.330910683, series);
    return series * inverse;
}

// relative error 2^-16
float quick_gate(float x) {
    float size = min(abs(x), 14.4);
    // In this order no product is below 2^-126 before the result is.
    float tail = size * exp2(size * size * -0.721347511) * quick_mills(size);
    float value = without_negative(x) - tail;
    return x > -INFINITE ? value : NOT_A_NUMBER;
}

// error 2^-17, relative 2^-16 beyond 2
float quick_slope(float x) {
    float size = min(abs(x), 14.4);
    float part = fma(size, -NORMAL_HEIGHT, quick_mills(size));
    float value = exp2(size * size * -0.721347511) * part;
    return x != x ? x : x >= 0.0 ? 1.0 - value : value;
}

// 1 - 2 P(-sqrt(2) x) from 1/2 on
float quick_erf(float x) {
    float size = min(abs(x), 4.5), u = size * size;
    float series = polynomial(u, -0.37612626, 0.112835787, -0.0268533472, 0.0051871622);
    float small = size * polynomial(u, 1.12837917, series);
    float tail = exp2(u * -1.44269502) * quick_mills(size * 1.41421354);
    float value = size < 0.5 ? small : fma(-2.0, tail, 1.0);
    return x == 0.0 || x != x ? x : x < 0.0 ? -value : value;
}

// log(P(x)) by one logarithm: of P(x) near 0, else of P(x) exp(x^2 / 2), less x^2 / 2, on
// the left, and of 1 - P(-x) on the right
float log_normal_share(float x) {
    float size = abs(x), s = min(size, 14.4);
    float share = mills(s), tail = raised_bell(s) * share * FROM_RAISED;
    // What is beyond is next to nothing beside the square.
    float inverse = 1.0 / size, square = inverse * inverse;
    if (size > 14.4) share = inverse * NORMAL_HEIGHT * polynomial(square, 1.0, -1.0, 3.0);
    bool near = size < 1.0, left = x < 0.0 && !near;
    float inner = erf_near_zero(x * 0.707106769), n;
    float outer = left ? share : 1.0 - tail;
    float f = reduce_logarithm(near ? fma(0.5, inner, 0.5) : outer, n);
    // Without what 1 leaves of their last bits
    f = left || n != 0.0 ? f : near ? fma(0.5, inner, -0.5) : -tail;
    float value = logarithm(f, n) - (left ? 0.5 * size * size : 0.0);
    // Where the tail is so small, it is the value.
    return x != x ? x : size == INFINITE ? (left ? -INFINITE : 0.0) : value;
}

#ifdef FLOAT64
#include "lib/double/error_function.glsl"
#endif
