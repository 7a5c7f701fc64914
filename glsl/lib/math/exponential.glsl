// Exponentials, logarithms and powers of float32
//
// Vulkan lets exp, exp2 and log be wrong by several ulp and pow by much more
// ("Precision of Individual Operations"), so they are computed here, with additions and
// products alone. Polynomials are minimax fits (reweighted least squares on Chebyshev
// nodes, coefficients rounded to float32 one after the other); each says its largest
// relative error. `precise` keeps compensated sums from being simplified.

#include "polynomial.glsl"
#include "power_of_two.glsl"
#include "sign.glsl"
#include "upper_half.glsl"

#define INFINITE uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

// ln 2 in two parts; the first has 15 bits, so its product with an exponent is exact.
const float LN2_HIGH = 0.693145752;
const float LN2_LOW = 1.42860677e-06;

// exp(x) - 1 for |x| <= ln(2) / 2; error 2^-31.
float expm1_near_zero(float x) {
    float series = polynomial(x, 0.00139332633, 0.000197679052);
    series = polynomial(x, 0.166666657, 0.0416664854, 0.00833354052, series);
    return fma(x * x, polynomial(x, 0.5, series), x);
}

// x = n ln(2) + rest, for |n| < 2^21; the rest is returned.
float reduce_exponent(float x, out float n) {
    float bits = fma(x, 1.44269502, TO_BITS);
    precise float whole = bits - TO_BITS;
    n = whole;
    return fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
}

// exp(x) * 2^n for small whole n
float scaled_exp(float x, float n) {
    float whole;
    float rest = reduce_exponent(clamp(x, -110.0, 90.0), whole);
    float scaled = times_power_of_two(1.0 + expm1_near_zero(rest), whole + n);
    return x != x ? x : scaled;
}

// exp(x) - 1 for |x| <= ln(2) / 2, by a term less than `expm1_near_zero`: the error is 2^-28
// of exp(x). Its halves do not wait for each other.
float exp_series(float x) {
    float square = x * x;
    float series = fma(square, 0.00138631335, fma(x, 0.00836744066, 0.0416672453));
    series = fma(square, series, fma(x, 0.166665345, 0.5));
    return fma(square, series, x);
}

// exp(x) to one ulp
float precise_exp(float x) {
    float n;
    float rest = reduce_exponent(clamp(x, -110.0, 90.0), n);
    float scaled = times_power_of_two(1.0 + exp_series(rest), n);
    return x != x ? x : scaled;
}

// 2^64 exp(x) for x <= 0, which is in range however small exp(x); from -110 on it falls
// no further, where exp(x) is 0. NaN stays as it is.
float raised_falling_exp(float x) {
    float n;
    float rest = reduce_exponent(x < -110.0 ? -110.0 : x, n);
    float power = power_of_two(n + 64.0);
    return fma(power, expm1_near_zero(rest), power);
}

const float LOWER = 5.42101086e-20;  // 2^-64

// exp(x) for x <= 0, the same to the last bit; NaN stays as it is.
float falling_exp(float x) {
    return raised_falling_exp(x) * LOWER;
}

// The same to one ulp, by a third fewer instructions, and the bits of `precise_exp`. On
// lavapipe (22.3 and 25.0, measured) exponentials take a third of the time of a softmax.
float row_exp(float x) {
    float bounded = x < -110.0 ? -110.0 : x;
    float bits = fma(bounded, 1.44269502, TO_BITS + 64.0);
    precise float n = bits - (TO_BITS + 64.0);
    float rest = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, bounded));
    float power = uintBitsToFloat((floatBitsToUint(bits) << 23) + 0x3f800000u);
    return fma(power, exp_series(rest), power) * LOWER;
}

// exp(x) of numbers up to 0, and 0 where that would be less than exp(-87). The relative
// error is 2^-22 and that of exp2, which has 2^-22 on current GPUs; row_exp is exact to one
// ulp anywhere, but takes three times the instructions.
float quick_exp(float x) {
    precise float power = x * 1.44269502;
    // What the product lost, and the constant, in units of x.
    precise float rest = fma(power, -0.693147182, x);
    float value = exp2(power);
    return x < -87.0 ? 0.0 : fma(value, rest, value);
}

float precise_exp2(float x) {
    float bounded = clamp(x, -152.0, 129.0), bits = bounded + TO_BITS;
    precise float n = bits - TO_BITS;
    float value = 1.0 + exp_series((bounded - n) * 0.693147182);
    return x != x ? x : times_power_of_two(value, n);
}

float precise_expm1(float x) {
    float n;
    float rest = reduce_exponent(clamp(x, -20.0, 89.0), n);
    float small = expm1_near_zero(rest);
    // Half of 2^n is in range for every n here.
    float power = power_of_two(n - 1.0);
    float large = 2.0 * (power * small + (power - 0.5));
    float value = n == 0.0 ? small : large;
    return any(bvec2(x != x, x == 0.0)) ? x : value;
}

// scale x above 0, otherwise scale alpha (exp(input_scale x) - 1)
float elu_of(float x, float alpha, float scale, float input_scale) {
    float left = scale * alpha * precise_expm1(x * input_scale), right = scale * x;
    return x > 0.0 ? right : left;
}

// x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); f is returned. The exponent of
// x is as much larger as `bias` is.
float reduce_biased(float x, int bias, out float n) {
    uint bits = floatBitsToUint(x) + (0x3f800000u - 0x3f3504f3u);
    n = float(int(bits >> 23) - bias);
    return uintBitsToFloat((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0;
}

// Of x of at least 2^-126
float reduce_normal(float x, out float n) {
    return reduce_biased(x, 127, n);
}

// Of any x above 0. What may be a branch costs more than to compute both sides; so do the
// functions from here on.
float reduce_logarithm(float x, out float n) {
    bool tiny = x < 1.17549435e-38;
    float raised = x * 8388608.0;
    return reduce_biased(tiny ? raised : x, tiny ? 150 : 127, n);
}

// log(1 + f) - (f - f^2 / 2) for f from `reduce_logarithm`; error 2^-27 of log(1 + f).
float logarithm_tail(float f) {
    float series = polynomial(f, -0.131596133, 0.127621979, -0.076363951);
    series = polynomial(f, 0.200012416, -0.166234091, 0.142015815, series);
    return f * f * f * polynomial(f, 0.333333313, -0.250008196, series);
}

// f + n LN2_HIGH - log(1 + f) - n ln(2)
float logarithm_rest(float f, float n) {
    float low = fma(n, LN2_LOW, logarithm_tail(f));
    return fma(0.5 * f, f, -low);
}

float logarithm(float f, float n) {
    return fma(n, LN2_HIGH, f - logarithm_rest(f, n));
}

// The value where x is positive and finite, otherwise what a logarithm of x is.
float logarithm_or_limit(float x, float value) {
    float undefined = NOT_A_NUMBER, least = -INFINITE;
    float other = x < 0.0 ? undefined : x;
    other = x == 0.0 ? least : other;
    return all(bvec2(x > 0.0, x < INFINITE)) ? value : other;
}

float precise_log(float x) {
    float n;
    float f = reduce_logarithm(x, n);
    return logarithm_or_limit(x, logarithm(f, n));
}

// log(1 + f) as a part of 12 bits and the rest
vec2 split_logarithm(float f) {
    precise float square = 0.5 * f * f;
    precise float high = upper_half(f - square);
    precise float low = ((f - high) - square) + logarithm_tail(f);
    return vec2(high, low);
}

float precise_log2(float x) {
    float n;
    vec2 parts = split_logarithm(reduce_logarithm(x, n));
    float low = (parts.x + parts.y) * 0.000312228396 + parts.y * 1.44238281;
    return logarithm_or_limit(x, n + (parts.x * 1.44238281 + low));
}

float precise_log10(float x) {
    float n;
    vec2 parts = split_logarithm(reduce_logarithm(x, n));
    float low = (parts.x + parts.y) * 9.03803375e-05 + parts.y * 0.434204102;
    low = n * 4.60503907e-06 + low;
    return logarithm_or_limit(x, n * 0.301025391 + (parts.x * 0.434204102 + low));
}

// log(1 + x) for x above -1 and up to 2^126
float log1p_in_range(float x) {
    // The bits of 2^n are those of 1 and these.
    uint up = floatBitsToUint(1.0 + x) - 0x3f3504f3u & 0xff800000u;
    float down = uintBitsToFloat(0x3f800000u - up);
    // 1 + x would lose the last bits of x: both are scaled before they are added.
    precise float f = fma(x, down, down - 1.0);
    return logarithm(f, float(int(up)) * 1.1920929e-07);
}

// log(1 + x) for x of at least 0, or 3 log(2) more than log(x)
float log1p_or_eightfold(float x, float size, bool far) {
    float part = 0.25 * size, value = log1p_in_range(far ? part : x);
    return value + (far ? 2.07944154 : 0.0);
}

float precise_log1p(float x) {
    bool large = x > 1e30;
    float lowered = x * LOWER;
    float value = log1p_in_range(large ? lowered : x) + (large ? 44.3614196 : 0.0);
    value = logarithm_or_limit(1.0 + x, value);
    return x == 0.0 ? x : value;
}

// log2(x) as a part of 12 bits and the rest, to 2^-30 of it; x positive and finite.
// log(m) = 2 atanh(s) with s = (m - 1) / (m + 1), whose rounding error is computed.
#ifdef FUSED_MULTIPLY_ADD
// log2(x) as a number and the rest, likewise; products leave their rounding errors.
vec2 split_log2(float x) {
    float n;
    precise float f = reduce_logarithm(x, n);
    precise float sum = 2.0 + f;
    precise float lost = f - (sum - 2.0);
    precise float inverse = 1.0 / sum;
    precise float s = f * inverse;
    precise float s_low = (fma(-s, sum, f) - s * lost) * inverse;
    // The quotient may be 2.5 ulp off, which its square would keep.
    float near = s + s_low, u = near * near;
    float series = polynomial(u, 0.333333313, 0.200004861, 0.142493933, 0.12139605);
    precise float rest = fma(near, u * series, s_low);
    precise float high = s + rest;
    precise float low = rest - (high - s);
    // 2 / ln(2) in two parts
    precise float product = high * 2.88539004;
    precise float product_low = fma(high, 2.88539004, -product);
    product_low = fma(high, 3.85192991e-08, fma(low, 2.88539004, product_low));
    precise float result = n + product;
    return vec2(result, product_low - ((result - n) - product));
}

// The product of a number and one in two parts, in two parts
vec2 split_product(float y, vec2 parts) {
    precise float high = y * parts.x;
    precise float low = fma(y, parts.y, fma(y, parts.x, -high));
    return vec2(high, low);
}
#else
vec2 split_log2(float x) {
    float n;
    precise float f = reduce_logarithm(x, n);
    precise float sum = (1.0 + f) + 1.0;
    precise float sum_high = upper_half(sum);
    precise float sum_low = (1.0 + f) - (sum_high - 1.0);
    precise float inverse = 1.0 / sum;
    precise float s = f * inverse;
    precise float s_high = upper_half(s);
    precise float s_low = ((f - s_high * sum_high) - s_high * sum_low) * inverse;
    // (atanh(s) / s - 1) / s^2; error 2^-35.
    float u = s * s;
    float series = polynomial(u, 0.333333313, 0.200004861, 0.142493933, 0.12139605);
    precise float rest = s_low + s * (u * series);
    precise float whole = s_high + rest;
    precise float high = upper_half(whole);
    precise float low = rest - (high - s_high);
    // 2 / ln(2) in two parts
    precise float product = high * 2.88476562;
    precise float product_low = low * 2.88476562 + whole * 0.000624456792;
    precise float result = upper_half(n + (product + product_low));
    return vec2(result, product_low - ((result - n) - product));
}

vec2 split_product(float y, vec2 parts) {
    precise float y_high = upper_half(y);
    precise float high = y_high * parts.x;
    precise float low = (y - y_high) * parts.x + y * parts.y;
    return vec2(high, low);
}
#endif

// x^y for finite x > 0, by 2^(y log2(x)) with the exponent in two parts
float positive_power(float x, float y) {
    // Beyond this every power but that of 1 is infinite or 0.
    vec2 parts = split_product(clamp(y, -1e30, 1e30), split_log2(x));
    // At either end the rest is not that of the sum, but of its sign, which is enough.
    precise float n = roundEven(clamp(parts.x + parts.y, -152.0, 130.0));
    precise float rest = clamp((parts.x - n) + parts.y, -1.0, 1.0);
    return times_power_of_two(1.0 + expm1_near_zero(rest * 0.693147182), n);
}

// x^y, given |x|^y where that is not special; special cases as in C, F.10.4.4
float power_or_limit(float x, float y, float value) {
    float size = abs(x), half_way = 0.5 * y, square = x * x;
    float infinite = INFINITE, undefined = NOT_A_NUMBER;
    bool whole = floor(y) == y;
    bool odd = all(bvec2(whole, floor(half_way) != half_way));
    float limit = (size == 0.0) == (y > 0.0) ? 0.0 : infinite;
    float result = any(bvec2(size == 0.0, size == infinite)) ? limit : value;
    uint sign = floatBitsToUint(x) & 1u << 31;
    result = uintBitsToFloat(floatBitsToUint(result) | (odd ? sign : 0u));
    bool root = all(bvec3(x < 0.0, !whole, size != infinite));
    result = any(bvec3(root, x != x, y != y)) ? undefined : result;
    result = any(bvec2(y == 0.0, x == 1.0)) ? 1.0 : result;
    return y == 2.0 ? square : result;
}

float power(float x, float y) {
    return power_or_limit(x, y, positive_power(abs(x), y));
}

float logistic(float x) {
    float e = falling_exp(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}

// x / (1 + exp(-z)); where exp(z) is below 2^-126, its product with x may not be.
float gated(float x, float z) {
    float raised = raised_falling_exp(-abs(z));
    float e = raised * LOWER;
    float left = z < -103.0 ? x * e : x * raised * LOWER;
    return (z >= 0.0 ? x : left) / (1.0 + e);
}

// x tanh(log(1 + exp(x))), which is x g / (g + 2) with g = exp(x) (exp(x) + 2)
float softly_gated(float x) {
    float raised = raised_falling_exp(-abs(x));
    float e = raised * LOWER;
    float above_right = fma(e, 2.0, 1.0), above_left = 2.0 + e;
    float below_right = fma(e * 2.0, 1.0 + e, 1.0), below_left = fma(e, 2.0 + e, 2.0);
    bool right = x >= 0.0, lost = x < -103.0;
    float quotient =
        (right ? above_right : above_left) / (right ? below_right : below_left);
    float left = x * (lost ? e : raised) * (lost ? 1.0 : LOWER);
    return (right ? x : left) * quotient;
}

// log(1 + e) for 0 <= e <= 1, where the logarithm's reduction is one comparison
float log1p_of_part(float e) {
    bool large = e > 0.414213568;
    float below_half = fma(0.5, e, -0.5);
    return logarithm(large ? below_half : e, large ? 1.0 : 0.0);
}

// log(1 + exp(x)), which is x to float32 from 17 on
float log1p_exp(float x) {
    return max(x, 0.0) + log1p_of_part(falling_exp(-abs(x)));
}

// log(1 + exp(beta x)) / beta, but x where beta x is above a threshold
float softplus_of(float x, float beta, float threshold) {
    float scaled = beta * x, value = log1p_exp(scaled) / beta;
    return scaled > threshold ? x : value;
}

// -x log(x), which is 0 at 0 and minus infinity below
float entropy_term(float x) {
    float value = -x * precise_log(x);
    float least = -INFINITE, other = x < 0.0 ? least : value;
    return x == 0.0 ? 0.0 : other;
}

// log(exp(x) + exp(y)); where both are infinite they do not differ.
float log_add_exp(float x, float y) {
    float apart = x == y ? 0.0 : abs(x - y);
    float value = max(x, y) + log1p_of_part(falling_exp(-apart));
    return x != x || y != y ? NOT_A_NUMBER : value;
}

// log2(2^x + 2^y)
float log_add_exp2(float x, float y) {
    float apart = x == y ? 0.0 : abs(x - y);
    float part = log1p_of_part(falling_exp(-0.693147182 * apart));
    float value = fma(part, 1.44269502, max(x, y));
    return x != x || y != y ? NOT_A_NUMBER : value;
}

// log(1 / (1 + exp(-x)))
float log_logistic(float x) {
    return min(x, 0.0) - log1p_of_part(falling_exp(-abs(x)));
}

// The same for results that are rounded to 2 bytes, with a relative error of 2^-16 where
// exp2 has what Vulkan asks of it: a third of the instructions.
const float LOG2_E = 1.44269502;

// By the square of its root, so that exp2 meets neither end of float32's range. Drivers
// differ in what exp2 makes of NaN.
float quick_full_exp(float x) {
    float root = exp2(x * (0.5 * LOG2_E));
    return x != x ? x : root * root;
}

// 2^64 exp(-|x|), in range however small exp(-|x|)
float quick_raised_exp(float x) {
    return exp2(fma(abs(x), -LOG2_E, 64.0));
}

float quick_logistic(float x) {
    float e = quick_raised_exp(x) * LOWER;
    return (x >= 0.0 ? 1.0 : e) * (1.0 / (1.0 + e));
}

// log2(1 + e) for 2^64 e from 0 to 2^64, in range however small e; relative error 2^-22
float quick_log2_of_sum(float raised) {
    float e = raised * LOWER;
    float series = polynomial(e, 0.255339444, -0.154287994, 0.0627759546, -0.0120653091);
    series = polynomial(e, 0.480031103, -0.353179693, series);
    return raised * polynomial(e, 1.44269478, -0.721308231, series) * LOWER;
}

float quick_log_add_exp2(float x, float y) {
    float apart = x == y ? 0.0 : abs(x - y);
    float value = max(x, y) + quick_log2_of_sum(exp2(64.0 - apart));
    return x != x || y != y ? NOT_A_NUMBER : value;
}

float quick_log_add_exp(float x, float y) {
    float apart = x == y ? 0.0 : x - y;
    float sum = quick_log2_of_sum(quick_raised_exp(apart));
    float value = fma(sum, 0.693147182, max(x, y));
    return x != x || y != y ? NOT_A_NUMBER : value;
}

float quick_gated(float x, float z) {
    float raised = quick_raised_exp(z);
    float inverse = 1.0 / fma(raised, LOWER, 1.0);
    float right = x * inverse;
    return z >= 0.0 ? right : right * raised * LOWER;
}

float quick_softly_gated(float x) {
    float raised = quick_raised_exp(x);
    float e = raised * LOWER;
    bool right = x >= 0.0;
    float above = right ? fma(e, 2.0, 1.0) : 2.0 + e;
    float below = right ? fma(e * 2.0, 1.0 + e, 1.0) : fma(e, 2.0 + e, 2.0);
    float value = x * (above * (1.0 / below));
    return right ? value : value * raised * LOWER;
}

float quick_log1p_exp(float x) {
    float sum = quick_log2_of_sum(quick_raised_exp(x));
    float value = fma(sum, 0.693147182, max(x, 0.0));
    return x != x ? x : value;
}

float quick_softplus_of(float x, float beta, float threshold) {
    float scaled = beta * x, value = quick_log1p_exp(scaled) / beta;
    return scaled > threshold ? x : value;
}

float quick_log_logistic(float x) {
    float sum = quick_log2_of_sum(quick_raised_exp(x));
    float value = fma(sum, -0.693147182, min(x, 0.0));
    return x != x ? x : value;
}

// log2(x) for x above 0, and finite. Near 1 log2 is only right to 2^-21 of 1, so there it
// is a series.
float quick_log2_inside(float x) {
    float f = x - 1.0;
    float near = f * polynomial(f, 1.44269502, -0.721347511, 0.48089835, -0.360673755);
    bool tiny = x < 1.17549435e-38;
    float raised = x * 8388608.0;
    float far = log2(tiny ? raised : x) - (tiny ? 23.0 : 0.0);
    return abs(f) < 0.03125 ? near : far;
}

float quick_log(float x) {
    return logarithm_or_limit(x, quick_log2_inside(x) * 0.693147182);
}

// Products with the logarithm of a number near 1 need more of it than log2 has.
float quick_power(float x, float y) {
    float size = abs(x), f = size - 1.0;
    float series = polynomial(f, -0.360673755, 0.288539004, -0.240449175);
    float near = f * polynomial(f, 1.44269502, -0.721347511, 0.48089835, series);
    bool tiny = size < 1.17549435e-38;
    float raised = size * 8388608.0;
    float far = log2(tiny ? raised : size) - (tiny ? 23.0 : 0.0);
    float product = clamp(y, -1e30, 1e30) * (abs(f) < 0.125 ? near : far);
    // By the square of its root: see `quick_full_exp`
    float root = exp2(0.5 * clamp(product, -300.0, 300.0));
    return power_or_limit(x, y, root * root);
}

float quick_log2(float x) {
    return logarithm_or_limit(x, quick_log2_inside(x));
}

float quick_log10(float x) {
    return logarithm_or_limit(x, quick_log2_inside(x) * 0.301029996);
}

float quick_entropy_term(float x) {
    float value = -x * quick_log(x);
    float least = -INFINITE, other = x < 0.0 ? least : value;
    return x == 0.0 ? 0.0 : other;
}

float quick_log1p(float x) {
    float near = x * polynomial(x, 1.0, -0.5, 0.333333343, -0.25);
    float far = logarithm_or_limit(1.0 + x, log2(1.0 + x) * 0.693147182);
    float value = abs(x) < 0.03125 ? near : far;
    return x == 0.0 ? x : value;
}

#ifdef FLOAT64
#include "lib/double/exponential.glsl"
#endif
