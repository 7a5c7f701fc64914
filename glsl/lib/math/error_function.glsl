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
    float large = 1.0 - precise_exp(-series);
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
    float tail = times_power_of_two(bell * series * share, whole_number(n));
    float value = x < 0.0 ? 2.0 - tail : tail;
    return x != x ? x : abs(x) < 0.5 ? 1.0 - erf_near_zero(x) : value;
}

// The probability that a standard normal number is less than x: one path for all x, for
// it bounds how fast gelu is
float normal_cumulative(float x) {
    float size = min(abs(x), 14.2);
    float scaled = size * 0.707106769;
    float one = 1.0 + 2.0 * scaled, two = scaled + 2.0;
    float inverse = 1.0 / (one * two);
    // (0.5 + s) exp(s^2) erfc(s) for 0 <= s <= 10.1, in (s - 2) / (s + 2); relative
    // error 2^-25.
    float t = (scaled - 2.0) * (one * inverse);
    float series = 0.000656954420 + t * (-0.000618878112 - t * 0.000202205352);
    series = -0.0271036737 + t * (-0.00402897038 + t * (0.00431996584 + t * series));
    series = -0.0463819578 + t * (-0.0830154866 + t * (0.0820273012 + t * series));
    series = 0.638489187 + t * series;
    float share = two * inverse;
    share = fma(share, fma(-share, one, 1.0), share);
    // exp(-x^2 / 2), the square in two parts, the first of which is exact.
    float upper = upper_half(size), high = upper * upper;
    precise float low = (size - upper) * (size + upper);
    float n = roundEven((high + low) * -0.721347511);
    precise float reduced = (-0.5 * high - n * LN2_HIGH) - (0.5 * low + n * LN2_LOW);
    float bell = 1.0 + expm1_near_zero(reduced);
    float tail = times_power_of_two(bell * (series * share), whole_number(n));
    return x != x ? x : x > 0.0 ? 1.0 - tail : tail;
}
