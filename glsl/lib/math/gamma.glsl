// Gamma function of float32: its logarithm and derivatives, incomplete integrals, and draws
// from the gamma distribution
//
// Where a formula would lose digits (zeros of the logarithm, large arguments of incomplete
// integrals), it is arranged so that the small difference is computed first.

#include "arithmetic.glsl"
#include "exponential.glsl"
#include "trigonometric.glsl"

// log(gamma(2 + t)) for -1 <= t <= 1/2, which vanishes at both zeros exactly; minimax fit of
// what is left, relative error 2^-25.
float lgamma_near_two(float t) {
    float series = polynomial(t, 0.00015545246, 0.00013198859, 0.00022959919);
    series = polynomial(t, 0.00089903135, -0.00052218727, series);
    series = polynomial(t, 0.0050015585, -0.0020877607, series);
    series = polynomial(t, 0.032965004, -0.01238543, series);
    return t * (1.0 + t) * polynomial(t, 0.42278433, -0.10031729, series);
}

// log(gamma(x)) - (x - 1/2) (log(x) - 1) for x >= 5/2; error 2^-28 of log(gamma(x)).
float stirling_rest(float x) {
    float inverse = 1.0 / x, square = inverse * inverse;
    float series = polynomial(square, 0.083331615, -0.0027538182, 0.000613206);
    return fma(inverse, series, 0.41893873);
}

// log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x >= 8; error 2^-34.
float stirling_tail(float x) {
    float inverse = 1.0 / x, square = inverse * inverse;
    return inverse * polynomial(square, 0.0833333333, -0.00277777778, 0.000793650794);
}

// sin(pi x), with an exact reduction
float sine_of_half_turns(float x) {
    float t = folded_half_turns(x);
    return 3.14159265 * t * sinc_near_zero(t);
}

// pi / tan(pi x)
float cotangent_of_half_turns(float x) {
    precise float t = x - roundEven(x);
    float size = abs(t), other = 0.5 - size;
    float sine = size * sinc_near_zero(size), cosine = other * sinc_near_zero(other);
    return with_sign_of(3.14159265 * cosine / sine, t);
}

// log |gamma(x)|; infinite at 0 and negative whole numbers. With one logarithm, but for two
// below -5/2. Most numbers are positive, so what others need is a branch.
float precise_lgamma(float x) {
    float size = abs(x), turn = 1.0, reflection = 0.0;
    bool low = size <= 1.0, high = size >= 2.5, pole = false;
    float below = size - 1.0, above = size - 2.0, argument = any(bvec2(low, high)) ? size : 1.0;
    if (x <= 0.0) {
        // gamma(x) is 1 over -x gamma(-x) sine: 1 - x would round away small numbers.
        precise float whole = roundEven(x), t = x - whole;
        float sine = abs(t) * sinc_near_zero(t), product = sine * size;
        float inner = low ? sine : product;
        pole = x == whole;
        turn = -1.0;
        argument = high ? size : inner;
        if (high) {
            float m, g = reduce_normal(product, m);
            reflection = -logarithm(g, m);
        }
    }
    float raised = argument * 8388608.0, n;
    float f = reduce_biased(low ? raised : argument, low ? 150 : 127, n);
    float rest = logarithm_rest(f, n);
    // Of numbers below 1 it is that of the next one, without the factor between.
    float near = lgamma_near_two(low ? below : above);
    float small = fma(turn, near, -fma(n, LN2_HIGH, f - rest));
    // Products with log(x) - 1 in two parts, which are not added before
    float half_less = size - 0.5, first = fma(n, LN2_HIGH, -1.0) + f;
    float large = fma(half_less, first, fma(half_less, -rest, stirling_rest(size)));
    large = fma(turn, large, reflection);
    float value = high ? large : small;
    return pole ? INFINITE : value;
}

// For results that are rounded to 2 bytes: log(gamma(2 + t)) for -9/8 <= t <= 1/4, with an
// error of 2^-19
float quick_lgamma_near_two(float t) {
    float series = polynomial(t, -0.0048823725, -0.0035204845);
    series = polynomial(t, 0.004509474, -0.005852535, series);
    series = polynomial(t, 0.033026867, -0.012081284, series);
    return t * (1.0 + t) * polynomial(t, 0.42278373, -0.10032334, series);
}

// As `precise_lgamma`, with errors of 2^-17
float quick_lgamma(float x) {
    // Numbers of 2 bytes come nearer to the zeros there than this has digits.
    if (x <= -2.25) return precise_lgamma(x);
    float size = abs(x), turn = 1.0;
    // Nearer to 1 log2 has fewer digits.
    bool low = size < 0.875, high = size >= 2.25, pole = false, factor = low;
    float below = size - 1.0, above = size - 2.0;
    // Small numbers are raised before they are multiplied, or they might become 0.
    float raised = low ? 8388608.0 : 1.0, argument = size * raised;
    if (x <= 0.0) {
        float whole = roundEven(x), t = x - whole, u = t * t;
        float series = polynomial(u, 0.99999905, -1.6448238, 0.8096516, -0.17773776);
        float sine = abs(t) * raised * series, product = sine * size;
        pole = x == whole;
        factor = true;
        turn = -1.0;
        argument = low ? sine : product;
    }
    float logarithm = fma(log2(argument), 0.693147182, low ? -15.9423852 : 0.0);
    float near = quick_lgamma_near_two(low ? below : above);
    float small = fma(turn, near, factor ? -logarithm : 0.0);
    float inverse = 1.0 / size;
    float rest = polynomial(inverse, 0.41885895, 0.08412778, -0.002556597);
    float value = high ? fma(size - 0.5, logarithm - 1.0, rest) : small;
    return pole ? INFINITE : value;
}

// A fraction and 1 / y as one fraction
vec2 with_inverse(vec2 fraction, float y) {
    return vec2(fma(fraction.x, y, fraction.y), fraction.y * y);
}

vec2 with_inverse_square(vec2 fraction, float y) {
    return with_inverse(fraction, y * y);
}

// Derivative of log(gamma(x)); at negative whole numbers NaN, at 0 infinite. Without loops:
// neighbours would wait for the longest.
float precise_digamma(float x) {
    bool reflected = x < 0.0;
    float mirrored = 1.0 - x, y = reflected ? mirrored : x;
    // The sum of 1 / (y + k) for k below 6 as one fraction
    bool low = y < 6.0;
    float first = low ? y : 6.0, raised = y + 6.0;
    vec2 sum = with_inverse(vec2(1.0, first), first + 1.0);
    sum = with_inverse(with_inverse(sum, first + 2.0), first + 3.0);
    sum = with_inverse(with_inverse(sum, first + 4.0), first + 5.0);
    float shift = sum.x / sum.y;
    y = low ? raised : y;
    float inverse = 1.0 / y, square = inverse * inverse;
    float tail = polynomial(
        square, 0.0833333333, -0.00833333333, 0.00396825397, -0.00416666667);
    float value = precise_log(y) - fma(square, tail, 0.5 * inverse);
    value -= low ? shift : 0.0;
    float turned = value - cotangent_of_half_turns(x);
    float undefined = NOT_A_NUMBER, pole = with_sign_of(INFINITE, -x);
    turned = floor(x) == x ? undefined : turned;
    value = reflected ? turned : value;
    return x == 0.0 ? pole : value;
}

// Second derivative of log(gamma(x)), infinite at 0 and negative whole numbers
float precise_trigamma(float x) {
    bool reflected = x < 0.0;
    float mirrored = 1.0 - x, y = reflected ? mirrored : x;
    // The sum of 1 / (y + k)^2 for k from 1 to 5 as one fraction
    bool low = y < 6.0;
    float first = low ? y : 6.0, raised = y + 6.0, start = 1.0 / first;
    vec2 sum = with_inverse_square(vec2(0.0, 1.0), first + 1.0);
    sum = with_inverse_square(with_inverse_square(sum, first + 2.0), first + 3.0);
    sum = with_inverse_square(with_inverse_square(sum, first + 4.0), first + 5.0);
    float shift = fma(start, start, sum.x / sum.y);
    y = low ? raised : y;
    float inverse = 1.0 / y, square = inverse * inverse;
    float tail = polynomial(
        square, 0.166666667, -0.0333333333, 0.0238095238, -0.0333333333);
    float value = fma(inverse * square, tail, fma(0.5, square, inverse));
    value += low ? shift : 0.0;
    float t = x - roundEven(x), pole = 1.0 / (t * sinc_near_zero(t));
    float turned = fma(pole, pole, -value);
    return reflected ? turned : value;
}

// Hurwitz's zeta function, the sum of (q + k)^-s, by Euler and Maclaurin's formula
float hurwitz_zeta(float s, float q) {
    if (s == 1.0) return INFINITE;
    if (!(s > 1.0)) return NOT_A_NUMBER;
    if (q <= 0.0) {
        if (floor(q) == q) return INFINITE;
        if (floor(s) != s || q < -4096.0) return NOT_A_NUMBER;
    }
    float sum = 0.0;
    while (q < s + 4.0) {
        float term = power(q, -s);
        sum += term;
        q += 1.0;
        // The rest is less than its integral.
        if (q > 1.0 && term * q <= 1.5e-8 * (s - 1.0) * sum) return sum;
    }
    // q^(1 - s) is in range where q^-s may not be.
    float tail = power(q, 1.0 - s), inverse = 1.0 / q, term = tail * inverse;
    float y = -8.26719577e-07;
    y = fma(y, (s + 5.0) * inverse * ((s + 6.0) * inverse), 3.30687831e-05);
    y = fma(y, (s + 3.0) * inverse * ((s + 4.0) * inverse), -0.00138888889);
    y = fma(y, (s + 1.0) * inverse * ((s + 2.0) * inverse), 0.0833333333);
    return sum + (tail / (s - 1.0) + term * fma(s * inverse, y, 0.5));
}

// log(1 + t) - t for t > -1
float log1p_less(float t) {
    if (abs(t) > 0.5) return precise_log1p(t) - t;
    float s = t / (2.0 + t), z = s * s;
    float tail = polynomial(z, 0.0909090909, 0.0769230769, 0.0666666667);
    tail = polynomial(z, 0.333333333, 0.2, 0.142857143, polynomial(z, 0.111111111, tail));
    // log(1 + t) = 2 atanh(s), and 2 s - t = -t s.
    return fma(2.0 * s * z, tail, -t * s);
}

// x^a exp(-x) / gamma(a + 1)
float gamma_density(float a, float x) {
    if (a < 8.0) return precise_exp(a * precise_log(x) - x - precise_lgamma(a + 1.0));
    float close = precise_exp(a * log1p_less((x - a) / a) - stirling_tail(a));
    return close / sqrt(6.28318531 * a);
}

const uint MOST_TERMS = 4096u;

// Lower incomplete gamma function over gamma(a), by its series
float igamma_series(float a, float x) {
    float term = 1.0, sum = 1.0;
    for (uint k = 1u; k < MOST_TERMS && term > sum * 2.9e-8; ++k) {
        term *= x / (a + float(k));
        sum += term;
    }
    return sum * gamma_density(a, x);
}

// Upper incomplete gamma function over gamma(a), by Lentz's continued fraction
float igammac_fraction(float a, float x) {
    float b = x + 1.0 - a, c = 1e30, d = 1.0 / b, h = d;
    for (uint k = 1u; k < MOST_TERMS; ++k) {
        float n = float(k), factor = -n * (n - a);
        b += 2.0;
        d = 1.0 / (factor * d + b);
        c = b + factor / c;
        float change = c * d;
        h *= change;
        if (abs(change - 1.0) < 6e-8) break;
    }
    return h * a * gamma_density(a, x);
}

bool igamma_limit(float a, float x, out float lower) {
    lower = NOT_A_NUMBER;
    if (!(a >= 0.0 && x >= 0.0)) return true;
    bool is_wide = a > 3.4e38, is_far = x > 3.4e38;
    if (a == 0.0) lower = x == 0.0 ? NOT_A_NUMBER : 1.0;
    else if (x == 0.0 || is_wide) lower = is_far ? NOT_A_NUMBER : 0.0;
    else if (is_far) lower = 1.0;
    else return false;
    return true;
}

float precise_igamma(float a, float x) {
    float lower;
    if (igamma_limit(a, x, lower)) return lower;
    return x < a + 1.0 ? igamma_series(a, x) : 1.0 - igammac_fraction(a, x);
}

// For a < 1/2 and x < 3/2, also where it is tiny: DLMF 8.7.3, with log(gamma(1 + a)) of
// DLMF 5.7.3 near 0
float igammac_series(float a, float x) {
    float series = polynomial(a, 0.270580808, -0.207385551, 0.169557177, -0.144049897);
    series = polynomial(a, -0.577215665, 0.822467033, -0.400685634, series);
    float logarithm = a < 0.1 ? a * series : precise_lgamma(1.0 + a);
    float term = 1.0, sum = 0.0;
    for (uint n = 1u; n < 20u; ++n) {
        term *= -x / float(n);
        sum += term / (a + float(n));
    }
    float exponent = a * precise_log(x) - logarithm;
    return -precise_expm1(exponent) - a * precise_exp(exponent) * sum;
}

float precise_igammac(float a, float x) {
    float lower;
    if (igamma_limit(a, x, lower)) return 1.0 - lower;
    if (a < 0.5 && x < 1.5) return igammac_series(a, x);
    return x < a + 1.0 ? 1.0 - igamma_series(a, x) : igammac_fraction(a, x);
}

// log(x / a), and the derivative of log(gamma(a)) less log(x); exact also for x near a
float log_ratio(float a, float x) {
    float apart = (x - a) / a;
    return abs(apart) < 0.5 ? precise_log1p(apart) : precise_log(x) - precise_log(a);
}

float digamma_less_log(float a, float x) {
    if (a < 8.0) return precise_digamma(a) - precise_log(x);
    float inverse = 1.0 / a, square = inverse * inverse;
    float tail = square * polynomial(square, 0.0833333333, -0.00833333333, 0.00396825397);
    return -0.5 * inverse - tail - log_ratio(a, x);
}

// Nodes above the middle of [0, 1] and weights of Gauss and Legendre's rule of 20 points
const float NODES[10] = float[](
    0.53826326, 0.61389291, 0.68685305, 0.7554335, 0.81802684,
    0.87316597, 0.91955847, 0.95611721, 0.98198599, 0.99656433);
const float WEIGHTS[10] = float[](
    0.07637669, 0.0745865, 0.07104805, 0.06584432, 0.05909727,
    0.05096506, 0.04163837, 0.03133602, 0.02030071, 0.008807);

// Derivative by a of the draw x: minus that of the lower incomplete function over the
// density, an integral over what is below x, or above it, where the integrand falls by
// e^-18 and has no narrow peak.
float gamma_draw_slope(float a, float x) {
    if (!(a > 0.0 && x > 0.0)) return a > 0.0 && x == 0.0 ? 0.0 : NOT_A_NUMBER;
    float apart = digamma_less_log(a, x);
    bool below = x < max(a, 0.02);
    float fall = 1.0 - (x < a ? x / a : a / x);
    float span = min(18.0 / max(fall, 1e-30), 18.0 + 5.5 * sqrt(a));
    if (below && x > a) span = 18.0 + x;
    float length = below ? span : precise_log1p(span / x);
    float sum = 0.0;
    for (uint k = 0u; k < 20u; ++k) {
        float node = k < 10u ? NODES[k] : 1.0 - NODES[k - 10u];
        float t = length * node, value;
        if (below) {
            float falling = precise_expm1(-t / a);
            value = (apart + t / a) * precise_exp(-t - x * falling);
        } else {
            value = (t - apart) * precise_exp(a * t - x * precise_expm1(t));
        }
        sum += value * WEIGHTS[k % 10u];
    }
    return length * x * (below ? sum / a : sum);
}

#ifdef FLOAT64
#include "lib/double/gamma.glsl"
#endif
