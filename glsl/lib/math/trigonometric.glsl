// Circular functions of float32 and their inverses
//
// Vulkan allows sin and cos an absolute error of 2^-11 within [-pi, pi] and nothing
// beyond, and asin, acos and atan 4096 ulp. Polynomials are minimax fits; each says its
// largest relative error.
// lint    private-array: a table of constants, for arguments that are large

#include "division.glsl"
#include "exponential.glsl"
#include "rounding.glsl"

const float HALF_PI_HIGH = 1.57079637;
const float HALF_PI_LOW = -4.37113883e-08;

// 32 bits of 2 / pi after 64 zero bits; not an array, which software drivers copy.
uint two_over_pi(uint word) {
    uint low = word == 2u ? 0xa2f9836eu : word == 3u ? 0x4e441529u : 0u;
    uint middle = word == 4u ? 0xfc2757d1u : word == 5u ? 0xf534ddc0u : low;
    uint high = word == 6u ? 0xdb629599u : word == 7u ? 0x3c439041u : middle;
    return word == 8u ? 0xfe5163abu : high;
}

// `reduce_angle` for any size from 1 on: x * 2 / pi modulo 4 in integers of 64 bits.
// Source: Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983.
float reduce_large_angle(float x, out uint quarter) {
    uint bits = floatBitsToUint(x);
    uint start = (bits >> 23 & 0xffu) - 96u;
    uint word = start >> 5, shift = start & 31u;
    uvec3 window =
        uvec3(two_over_pi(word), two_over_pi(word + 1u), two_over_pi(word + 2u));
    uvec3 next = uvec3(window.yz, two_over_pi(word + 3u));
    if (shift != 0u) window = window << shift | next >> (32u - shift);
    uint significand = (bits | 0x00800000u) << 8;
    uint high, low, carry_high, carry_low;
    umulExtended(significand, window.y, high, low);
    umulExtended(significand, window.z, carry_high, carry_low);
    low += carry_high;
    high += significand * window.x + (low < carry_high ? 1u : 0u);
    quarter = high >> 30;
    high = high << 2 | low >> 30;
    low <<= 2;
    bool negative = (high & 0x80000000u) != 0u;
    if (negative) {
        quarter += 1u;
        low = ~low + 1u;
        high = ~high + (low == 0u ? 1u : 0u);
    }
    int zeros = 31 - findMSB(high);
    if (high == 0u) {
        zeros = 63 - findMSB(low);
        high = low << (zeros - 32);
    } else if (zeros > 0) {
        high = high << zeros | low >> (32 - zeros);
    }
    // Times pi / 2 * 2^-32, with the last eight bits and the constant's error apart
    float upper = float(int(high >> 8)), lower = float(int(high & 0xffu)) / 256.0;
    float correction = fma(upper, -2.60540177e-15, lower * 9.36267597e-08);
    float size = fma(upper, 9.36267597e-08, correction);
    float rest = size * uintBitsToFloat(uint(127 - zeros) << 23);
    if (bits >> 31 != 0u) {
        quarter = 0u - quarter;
        negative = !negative;
    }
    return negative ? -rest : rest;
}

// x = quarter * pi / 2 + rest, but for whole turns; the rest, at most pi / 4, is returned.
float reduce_angle(float x, out uint quarter) {
    // pi / 2 in parts of 11 bits, and 24 bits more: the first products are exact.
    // Conversions take as long as eight products.
    float bits = fma(x, 0.636619747, TO_BITS);
    precise float n = bits - TO_BITS;
    precise float near = (x - n * 1.5703125) - n * 0.000483751297;
    precise float third = n * 7.54953362e-08;
    precise float sum = near - third;
    precise float rest = sum + (((near - sum) - third) - n * 2.56334407e-12);
    quarter = floatBitsToUint(bits) & 3u;
    // Where the parts are too few, or so close to a zero that they cancel.
    bool far = !(abs(x) < 8192.0) || n != 0.0 && abs(rest) < 3.8e-6;
    return far && abs(x) < INFINITE ? reduce_large_angle(x, quarter) : rest;
}

// Errors for |x| <= pi / 4: 2^-28 and 2^-33
float sine_near_zero(float x) {
    float u = x * x;
    float series = polynomial(u, -0.166666552, 0.00833218917, -0.000195182918);
    return fma(x * u, series, x);
}

float cosine_near_zero(float x) {
    float u = x * x;
    float series = polynomial(u, 0.0416666456, -0.00138873106, 2.44325674e-05);
    return 1.0 - fma(-u * u, series, 0.5 * u);
}

// sin(x + shift * pi / 2)
float shifted_sine(float x, uint shift) {
    uint quarter;
    float rest = reduce_angle(x, quarter);
    quarter += shift;
    // Both are computed, for neighbours need the one or the other.
    float sine = sine_near_zero(rest), cosine = cosine_near_zero(rest);
    float value = (quarter & 1u) == 0u ? sine : cosine;
    value = uintBitsToFloat(floatBitsToUint(value) ^ (quarter & 2u) << 30);
    return abs(x) < INFINITE ? value : NOT_A_NUMBER;
}

float precise_sin(float x) {
    float value = shifted_sine(x, 0u);
    return x == 0.0 ? x : value;
}

float precise_cos(float x) {
    return shifted_sine(x, 1u);
}

float precise_tan(float x) {
    uint quarter;
    float rest = reduce_angle(x, quarter);
    float sine = sine_near_zero(rest), cosine = cosine_near_zero(rest);
    bool odd = (quarter & 1u) != 0u;
    float above = odd ? cosine : sine, below = odd ? sine : cosine;
    float value = above / below;
    value = odd ? -value : value;
    return x == 0.0 ? x : abs(x) < INFINITE ? value : NOT_A_NUMBER;
}

// The same for numbers of 2 bytes, to 2^-17. What is left of those below FEW_TURNS beyond
// n times pi, for multiples n of 1/2, has an error of 2^-19: none is closer to such a
// multiple than 1.5e-5.
#ifdef FUSED_MULTIPLY_ADD
const float FEW_TURNS = 131072.0;

float beyond_half_turns(float x, float n) {
    precise float near = fma(-n, 3.14159274, x);
    return fma(n, 8.74227766e-08, near);
}
#else
const float FEW_TURNS = 8192.0;

float beyond_half_turns(float x, float n) {
    precise float near = (x - n * 3.140625) - n * 0.000967502594;
    return near - n * 1.50990671e-07;
}
#endif

// sin(rest + half_turns * pi) for |rest| <= pi / 2
float quick_sine_series(float rest, uint half_turns) {
    float u = rest * rest;
    float series = polynomial(u, -0.166658282, 0.00831388589, -0.000185292462);
    float value = fma(rest * u, series, rest);
    return uintBitsToFloat(floatBitsToUint(value) ^ half_turns << 31);
}

float quick_sin(float x) {
    float bits = fma(x, 0.318309873, TO_BITS);
    precise float n = bits - TO_BITS;
    float value = quick_sine_series(beyond_half_turns(x, n), floatBitsToUint(bits));
    if (!(abs(x) < FEW_TURNS)) value = shifted_sine(x, 0u);
    return x == 0.0 ? x : value;
}

// sin(x + pi / 2)
float quick_cos(float x) {
    precise float bits = fma(x, 0.318309873, 0.5) + TO_BITS;
    precise float n = (bits - TO_BITS) - 0.5;
    float value = quick_sine_series(beyond_half_turns(x, n), floatBitsToUint(bits));
    if (!(abs(x) < FEW_TURNS)) value = shifted_sine(x, 1u);
    return value;
}

float quick_tan(float x) {
    float bits = fma(x, 0.636619747, TO_BITS);
    precise float n = bits - TO_BITS;
    float rest = beyond_half_turns(x, 0.5 * n), u = rest * rest;
    float series = polynomial(u, 0.0410576649, 0.0434183068);
    series = polynomial(u, 0.333145589, 0.136169076, series);
    float value = fma(rest * u, series, rest), inverse = -1.0 / value;
    value = (floatBitsToUint(bits) & 1u) != 0u ? inverse : value;
    if (!(abs(x) < FEW_TURNS)) value = precise_tan(x);
    return x == 0.0 ? x : value;
}

// asin(x) / x - 1 for |x| <= 1/2 and u = x * x; error 2^-32.
float arcsine_series(float u) {
    float series = polynomial(u, 0.0318260752, 0.014376116, 0.0375963524);
    return u * polynomial(u, 0.166666597, 0.0750051886, 0.044514481, series);
}

float arcsine_near_zero(float x) {
    return fma(x, arcsine_series(x * x), x);
}

// acos(x) for 1/2 <= x <= 1: 2 asin(sqrt((1 - x) / 2))
float arccosine_near_one(float x) {
    return 2.0 * arcsine_near_zero(sqrt(0.5 - 0.5 * x));
}

float precise_asin(float x) {
    float size = abs(x);
    bool inner = size <= 0.5;
    // From 1/2 on it is pi / 2 - acos(x), with the root in two parts. The square of the
    // first is exact, and so is what it leaves of pi / 2.
    float square = x * x, half_less = 0.5 - 0.5 * size;
    float u = inner ? square : half_less, series = arcsine_series(u);
    float root = sqrt(half_less);
    float high = uintBitsToFloat(floatBitsToUint(root) & 0xfffff000u);
    float low = (half_less - high * high) / (root + high);
    low = (half_less == 0.0 ? 0.0 : low) + root * series;
    float outer = HALF_PI_HIGH - 2.0 * high - (2.0 * low - HALF_PI_LOW);
    float near = fma(size, series, size), value = inner ? near : outer;
    float undefined = NOT_A_NUMBER;
    value = with_sign_of(value, x);
    value = size <= 1.0 ? value : undefined;
    return x == 0.0 ? x : value;
}

// For results that are rounded to 2 bytes: asin(x) / x - 1 for |x| <= 1/2 and u = x * x, with
// an error of 2^-19
float quick_arcsine(float x) {
    float u = x * x;
    return fma(x * u, polynomial(u, 0.166801259, 0.0718997940, 0.0641073063), x);
}

// What of asin(x) and acos(x) is a series: asin(|x|), or half of acos(|x|) from 1/2 on
float quick_arcsine_part(float size) {
    float root = sqrt(fma(-0.5, size, 0.5));
    return quick_arcsine(size <= 0.5 ? size : root);
}

float quick_asin(float x) {
    float size = abs(x), part = quick_arcsine_part(size);
    float outer = fma(-2.0, part, HALF_PI_HIGH), value = size <= 0.5 ? part : outer;
    float undefined = NOT_A_NUMBER;
    value = with_sign_of(value, x);
    value = size <= 1.0 ? value : undefined;
    return x == 0.0 ? x : value;
}

float quick_acos(float x) {
    float size = abs(x), part = quick_arcsine_part(size);
    float signed_part = with_sign_of(part, x);
    float inner = HALF_PI_HIGH - signed_part;
    float outer = fma(2.0, signed_part, x < 0.0 ? 3.14159265 : 0.0);
    float value = size <= 0.5 ? inner : outer;
    float undefined = NOT_A_NUMBER;
    return size <= 1.0 ? value : undefined;
}

float precise_acos(float x) {
    float size = abs(x);
    float outer = arccosine_near_one(size);
    float left = 2.0 * HALF_PI_HIGH - (outer - 2.0 * HALF_PI_LOW);
    outer = x < 0.0 ? left : outer;
    float inner = HALF_PI_HIGH - (arcsine_near_zero(x) - HALF_PI_LOW);
    float value = size <= 0.5 ? inner : outer;
    float undefined = NOT_A_NUMBER;
    return size <= 1.0 ? value : undefined;
}

// For 0 <= x <= 1; error 2^-28.
float arctangent_near_zero(float x) {
    float u = x * x;
    float series = polynomial(u, -0.0311240591, 0.0108854854, -0.0017870689);
    series = polynomial(u, 0.109511547, -0.0840037689, 0.0579042025, series);
    series = polynomial(u, -0.333332986, 0.19998531, -0.142640501, series);
    return fma(x * u, series, x);
}

float precise_atan(float x) {
    float size = abs(x);
    float inverse = 1.0 / size, near = arctangent_near_zero(size > 1.0 ? inverse : size);
    float far = HALF_PI_HIGH - (near - HALF_PI_LOW);
    float value = with_sign_of(size > 1.0 ? far : near, x);
    return any(bvec2(x == 0.0, x != x)) ? x : value;
}

// Special cases as in C, F.10.1.4
float precise_atan2(float y, float x) {
    float width = abs(x), height = abs(y);
    float large = max(width, height), small = min(width, height);
    // Divisors beyond 2^126 may count as infinite, ones below 2^-126 as 0.
    float scale = large > 1e30 ? 1e-20 : large < 1e-20 ? 1e20 : 1.0;
    float ratio = small == large ? 1.0 : (small * scale) / (large * scale);
    float value = arctangent_near_zero(large == 0.0 || small == 0.0 ? 0.0 : ratio);
    value = height > width ? HALF_PI_HIGH - (value - HALF_PI_LOW) : value;
    bool left = floatBitsToUint(x) >> 31 != 0u;
    value = left ? 2.0 * HALF_PI_HIGH - (value - 2.0 * HALF_PI_LOW) : value;
    value = uintBitsToFloat(floatBitsToUint(value) | floatBitsToUint(y) & 1u << 31);
    return x != x || y != y ? NOT_A_NUMBER : value;
}

// sin(x) / x, and 1 near 0
float sine_quotient(float x) {
    float sine = shifted_sine(x, 0u);
#ifdef ROUNDED_QUOTIENTS
    float value = divided(sine, x);
#else
    // Inverses of the largest numbers may count as 0.
    float scale = abs(x) > 4.25352959e+37 ? 0.25 : 1.0;
    float divisor = x * scale, inverse = 1.0 / divisor;
    sine *= scale;
    float value = sine * inverse;
    value = corrected(value, rest_of_product(sine, value, divisor), inverse);
#endif
    return abs(x) < 0.000244140625 ? 1.0 : value;
}

// The same for results that are rounded to 2 bytes
float quick_sine_quotient(float x) {
    float value = quick_sin(x) / x;
    return abs(x) < 0.000244140625 ? 1.0 : value;
}

// The derivative of sin(x) / x, which far from 0 is (cos(x) - sin(x) / x) / x
float sine_quotient_slope(float x) {
    if (abs(x) >= 1.5 || x != x) return (precise_cos(x) - precise_sin(x) / x) / x;
    float u = x * x;
    float y = 4.49833161e-14;
    y = fma(y, u, -1.07060292e-11);
    y = fma(y, u, 1.92708526e-09);
    y = fma(y, u, -2.50521084e-07);
    y = fma(y, u, 2.20458554e-05);
    y = fma(y, u, -0.00119047619);
    y = fma(y, u, 0.0333333333);
    y = fma(y, u, -0.333333333);
    return x * y;
}

// sin(pi t) / (pi t) for |t| <= 1/2; error 2^-35.
float sinc_near_zero(float t) {
    float u = t * t;
    float series = polynomial(u, -0.190747902, 0.0261174384, -0.0022371786);
    return polynomial(u, 1.0, -1.64493394, 0.811742187, series);
}

// t of at most 1/2 where sin(pi t) is sin(pi x). What is left of x beyond an even number is
// exact, and so is its distance to 1.
float folded_half_turns(float x) {
    precise float rest = fma(-2.0, roundEven(0.5 * x), x);
    float size = abs(rest), folded = with_sign_of(1.0 - size, rest);
    return size > 0.5 ? folded : rest;
}

// sin(pi x) / (pi x), and 1 at 0
float normalized_sinc(float x) {
    float t = folded_half_turns(x), near = sinc_near_zero(t), far = t * near / x;
    return abs(x) <= 0.5 ? near : far;
}

#ifdef FLOAT64
#include "lib/double/trigonometric.glsl"
#endif
