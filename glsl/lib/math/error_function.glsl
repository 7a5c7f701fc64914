// The error function of float32 and what is made of it
//
// Polynomials are minimax fits; each says its largest error.

#include "exponential.glsl"

// For |x| <= 1; relative error 2^-29.
float erf_near_zero(float x) {
    float u = x * x;
    float series = 0.0051871622 + u * (-0.00079978531 + u * 7.80690316e-05);
    series = -0.37612626 + u * (0.112835787 + u * (-0.0268533472 + u * series));
    // Tiny products would be lost where denormal numbers count as 0.
    return abs(x) < 1e-20 ? x * 1.12837917 : x + x * (0.128379166 + u * series);
}

float precise_erf(float x) {
    float size = min(abs(x), 4.0);
    // -log(1 - erf(x)) for 0.9 <= x <= 4; the error of erf is 2^-34.
    float series = 0.00416042143 + size * (-0.000432273315 + size * 2.09062382e-05);
    series = 0.633386731 + size * (0.10823644 + size * (-0.0250913072 + size * series));
    series = -0.000170552026 + size * (1.12949514 + size * series);
    float n, rest = reduce_exponent(-series, n);
    float power = power_of_two(n);
    float large = (1.0 - power) - power * expm1_near_zero(rest);
    large = x < 0.0 ? -large : large;
    return x != x ? x : abs(x) < 0.9375 ? erf_near_zero(x) : large;
}

float precise_erfc(float x) {
    float size = min(abs(x), 11.0);
    // (1 + 2 x) exp(x^2) erfc(x) for 0.45 <= x <= 10.1, in (x - 2) / (x + 2);
    // relative error 2^-27.
    float one = 1.0 + 2.0 * size, two = size + 2.0;
    // One division serves both.
    float inverse = 1.0 / (one * two);
    float t = (size - 2.0) * (one * inverse);
    float series = 0.00117907359 + t * (-0.00126320834 - t * 0.000264284026);
    series = -0.0542132184 + t * (-0.00801536627 + t * (0.00866162498 + t * series));
    series = -0.0927638113 + t * (-0.166030496 + t * (0.164049923 + t * series));
    series = 1.27697837 + t * series;
    // The square in two parts, the first of which is exact.
    precise float high = upper_half(size);
    precise float rest = (size - high) * (size + high);
    float n = roundEven((-high * high - rest) * 1.44269502);
    float reduced = (-high * high - n * LN2_HIGH) - rest;
    float bell = 1.0 + expm1_near_zero(reduced - n * LN2_LOW);
    // 1 / one, with what the roundings lost.
    float share = two * inverse;
    share = fma(share, fma(-share, one, 1.0), share);
    float tail = bell * power_of_two(n + 64.0) * series * share * 5.42101086e-20;
    float value = x < 0.0 ? 2.0 - tail : tail;
    return x != x ? x : abs(x) < 0.5 ? 1.0 - erf_near_zero(x) : value;
}

// P(-s) exp(s^2 / 2) for 0 <= s <= 14.5, where P(x) is the probability that a standard
// normal number is less than x; relative error 2^-26.
float mills(float s) {
    // (s + 3.6) times it, in (s - 3.6) / (s + 3.6)
    float inverse = 1.0 / (s + 3.6);
    float t = (s - 3.6) * inverse;
    float series = 0.00047122917 + t * 7.51810439e-05;
    series = -0.00373655627 + t * (-0.000120932673 + t * series);
    series = -0.130249813 + t * (0.0250416677 + t * (0.0047926004 + t * series));
    series = 0.746886075 + t * (-0.574994445 + t * (0.3308402 + t * series));
    return series * inverse;
}

// 2^64 exp(-s^2 / 2) for 0 <= s <= 14.5; relative error 2^-28.
float raised_bell(float s) {
    // The square in two parts, the first of which is exact.
    float upper = upper_half(s), high = upper * upper;
    float low = (s - upper) * (s + upper);
    // n + 64 in the lowest bits
    float bits = high * -0.721347511 + (TO_BITS + 64.0);
    precise float n = bits - (TO_BITS + 64.0);
    // exp(-rest / 2) = exp(-s^2 / 2) / 2^n
    float rest = (high + n * (2.0 * LN2_HIGH)) + (low + n * (2.0 * LN2_LOW));
    float bell = 0.00260426663 + rest * (-0.000261521171 + rest * 2.1594893e-05);
    bell = -0.5 + rest * (0.124999985 + rest * (-0.0208331514 + rest * bell));
    bell = 1.0 + rest * bell;
    // In range until the end: n + 64 more in the exponent.
    return uintBitsToFloat(floatBitsToUint(bell) + (floatBitsToUint(bits) << 23));
}

const float FROM_RAISED = 5.42101086e-20;

// The height of the standard normal bell curve at 0
const float NORMAL_HEIGHT = 0.398942280;

// x P(x): one path for all x, for it bounds how fast gelu is. That is
// max(x, 0) - |x| P(-|x|).
float normal_gate(float x) {
    // NaN may become 14.4 here.
    float size = min(abs(x), 14.4);
    float tail = raised_bell(size) * mills(size);
    float value = (x >= 0.0 ? x : -0.0) - size * tail * FROM_RAISED;
    return x > -INFINITE ? value : NOT_A_NUMBER;
}

// Its derivative, P(x) + x P'(x), which is 1 less of what it is at -x
float normal_slope(float x) {
    float size = min(abs(x), 14.4);
    float part = mills(size) - size * NORMAL_HEIGHT;
    float value = raised_bell(size) * part * FROM_RAISED;
    return x != x ? x : x >= 0.0 ? 1.0 - value : value;
}

// The same three for results that are rounded to 2 bytes: half the instructions. Relative
// error 2^-18.8
float quick_mills(float s) {
    float inverse = 1.0 / (s + 3.6);
    float t = (s - 3.6) * inverse;
    float series = 0.00488300342 + t * -0.00277030631;
    series = -0.130293876 + t * (0.0245681927 + t * series);
    series = 0.746884465 + t * (-0.57499218 + t * (0.330910683 + t * series));
    return series * inverse;
}

// relative error 2^-16
float quick_gate(float x) {
    float size = min(abs(x), 14.4);
    // In this order no product is below 2^-126 before the result is.
    float tail = size * exp2(size * size * -0.721347511) * quick_mills(size);
    float value = (x >= 0.0 ? x : -0.0) - tail;
    return x > -INFINITE ? value : NOT_A_NUMBER;
}

// error 2^-17, relative 2^-16 beyond 2
float quick_slope(float x) {
    float size = min(abs(x), 14.4);
    float part = quick_mills(size) - size * NORMAL_HEIGHT;
    float value = exp2(size * size * -0.721347511) * part;
    return x != x ? x : x >= 0.0 ? 1.0 - value : value;
}

// 1 - 2 P(-sqrt(2) x) from 1/2 on
float quick_erf(float x) {
    float size = min(abs(x), 4.5), u = size * size;
    float series = -0.37612626 + u * (0.112835787 + u * (-0.0268533472 + u * 0.0051871622));
    float small = size * (1.12837917 + u * series);
    float tail = exp2(u * -1.44269502) * quick_mills(size * 1.41421354);
    float value = size < 0.5 ? small : 1.0 - 2.0 * tail;
    return x == 0.0 || x != x ? x : x < 0.0 ? -value : value;
}
