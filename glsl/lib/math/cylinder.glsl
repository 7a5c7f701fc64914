// Bessel functions J, Y and K of order 0 and 1, and Airy's function, of float32
//
// By polynomials, which interpolate at the nodes of Chebyshev: near 0 in
// v = 2 (x / border)^2 - 1, between -1 and 1, far from it in 1 / x. Errors are 2^-26 of the
// largest value. The one far from it, which takes several times as long for J and Y, is a
// branch of theirs.

#include "arithmetic.glsl"
#include "exponential.glsl"
#include "trigonometric.glsl"

const float BESSEL_BORDER = 5.0;

// J in v, for x up to BESSEL_BORDER; of order 1 over x
float near_j0(float v) {
    float series = polynomial(v, 0.00113435497, -7.71884515e-05, 3.9399024e-06);
    series = polynomial(v, -0.360180825, 0.0853918269, -0.0120349489, series);
    return polynomial(v, -0.384744495, -0.216505408, 0.709416032, series);
}

float near_j1(float v) {
    float series = polynomial(v, 8.60540604e-05, -5.04672425e-06, 2.26876011e-07);
    series = polynomial(v, -0.0546507724, 0.0096281711, -0.00108897535, series);
    return polynomial(v, 0.0346408673, -0.227013126, 0.172886774, series);
}

// Y less 2 / pi log(x) J, and of order 1 plus 2 / (pi x), over x
float near_y0(float v) {
    float series = polynomial(v, -0.00180279324, 0.000130602886, -7.00739702e-06);
    series = polynomial(v, 0.388516545, -0.111516826, 0.0176348519, series);
    return polynomial(v, 0.483724862, -0.432655841, -0.470576376, series);
}

float near_y1(float v) {
    float series = polynomial(v, -0.000141417579, 8.76753711e-06, -4.12413897e-07);
    series = polynomial(v, 0.0663469583, -0.0134334341, 0.00166877732, series);
    return polynomial(v, 0.139749393, 0.0910865068, -0.16312021, series);
}

// P and Q / t (DLMF 10.17.1) in the square of t, which is BESSEL_BORDER / x
float far_p0(float u) {
    float series = polynomial(u, 0.000177487032, -3.02240805e-05, 5.00197484e-06);
    return polynomial(u, 1.0, -0.00281227194, series);
}

float far_q0(float u) {
    float series = polynomial(u, -7.11063694e-05, 1.68231218e-05, -3.21658399e-06);
    return polynomial(u, -0.0249999966, 0.000585756963, series);
}

float far_p1(float u) {
    float series = polynomial(u, -0.000228503195, 3.60755148e-05, -5.81608629e-06);
    return polynomial(u, 1.0, 0.00468724221, series);
}

float far_q1(float u) {
    float series = polynomial(u, 8.70712829e-05, -1.96179844e-05, 3.68388396e-06);
    return polynomial(u, 0.0749999955, -0.000820110377, series);
}

// I in v, for x up to 2; of order 1 over x
float near_i0(float v) {
    float series = polynomial(v, 0.00392856495, 0.000119869233, 2.35807011e-06);
    return polynomial(v, 1.56608295, 0.635861754, 0.0735898465, series);
}

float near_i1(float v) {
    float series = polynomial(v, 0.000479282724, 1.17913323e-05, 1.94204119e-07);
    return polynomial(v, 0.635861754, 0.147179738, 0.0117856944, series);
}

// K plus log(x) I, and of order 1 less log(x) I and 1 / x, over x
float near_k0(float v) {
    float series = polynomial(v, 0.0077764662, 0.000265983981, 5.68998985e-06);
    return polynomial(v, 0.781905174, 0.781243086, 0.122785576, series);
}

float near_k1(float v) {
    float series = polynomial(v, -0.00100468809, -2.72896013e-05, -4.84258578e-07);
    return polynomial(v, -0.498201609, -0.210681841, -0.0214238614, series);
}

// exp(x) sqrt(x) K in 2 / x, for x from 2 on
float far_k0(float t) {
    float series = polynomial(t, 0.00365058449, -0.00145806163, 0.000269231532);
    series = polynomial(t, -0.0113405222, 0.00798722357, -0.00595266046, series);
    return polynomial(t, 1.25331414, -0.0783317015, 0.0220189597, series);
}

float far_k1(float t) {
    float series = polynomial(t, -0.00447491184, 0.00177067041, -0.00032527899);
    series = polynomial(t, 0.0159065649, -0.0103583708, 0.00743235648, series);
    return polynomial(t, 1.25331414, 0.234995902, -0.0367040932, series);
}

// J and Y for x from BESSEL_BORDER on, given P and Q; of order 1 a quarter turn behind
vec2 oscillating(float x, float p, float q, bool turned) {
    uint quarter;
    float rest = reduce_angle(x, quarter);
    float first_sine = sine_near_zero(rest), first_cosine = cosine_near_zero(rest);
    bool odd = (quarter & 1u) != 0u;
    float sine = odd ? first_cosine : first_sine, cosine = odd ? first_sine : first_cosine;
    sine = uintBitsToFloat(floatBitsToUint(sine) ^ (quarter & 2u) << 30);
    cosine = uintBitsToFloat(floatBitsToUint(cosine) ^ (quarter + 1u & 2u) << 30);
    // Cosine and sine, times sqrt(2), of x - pi / 4
    float across = cosine + sine, up = sine - cosine, back = -across;
    float first = turned ? up : across, second = turned ? back : up;
    float size = 0.564189584 / sqrt(x);
    return size * vec2(p * first - q * second, p * second + q * first);
}

vec2 far_bessel_0(float x) {
    float t = BESSEL_BORDER / x, u = t * t;
    return oscillating(x, far_p0(u), t * far_q0(u), false);
}

vec2 far_bessel_1(float x) {
    float t = BESSEL_BORDER / x, u = t * t;
    return oscillating(x, far_p1(u), t * far_q1(u), true);
}

float precise_bessel_j0(float x) {
    float size = abs(x), value = near_j0(fma(x * x, 0.08, -1.0));
    if (size >= BESSEL_BORDER) value = far_bessel_0(size).x;
    return value;
}

float precise_bessel_j1(float x) {
    float size = abs(x), value = size * near_j1(fma(x * x, 0.08, -1.0));
    if (size >= BESSEL_BORDER) value = far_bessel_1(size).x;
    return uintBitsToFloat(floatBitsToUint(value) ^ floatBitsToUint(x) & 1u << 31);
}

// The value where x is positive, minus infinity at 0 and NaN below
float bessel_or_limit(float x, float value) {
    float least = -INFINITE, undefined = NOT_A_NUMBER;
    float other = x == 0.0 ? least : undefined;
    return x > 0.0 ? value : other;
}

float precise_bessel_y0(float x) {
    float v = fma(x * x, 0.08, -1.0);
    float value = fma(0.636619772 * precise_log(x), near_j0(v), near_y0(v));
    if (x >= BESSEL_BORDER) value = far_bessel_0(x).y;
    return bessel_or_limit(x, value);
}

float precise_bessel_y1(float x) {
    float v = fma(x * x, 0.08, -1.0);
    float value = x * fma(0.636619772 * precise_log(x), near_j1(v), near_y1(v));
    value -= 0.636619772 / x;
    if (x >= BESSEL_BORDER) value = far_bessel_1(x).y;
    return bessel_or_limit(x, value);
}

// K and exp(x) K are the same but for a factor, which is in range near 0 or far from it.
float decaying(float x, float near, float far, bool scaled) {
    float bounded = min(x, 2.0), beyond = max(x, 2.0);
    far /= sqrt(beyond);
    float grown = near * precise_exp(bounded), fallen = far * precise_exp(-beyond);
    float inner = scaled ? grown : near, outer = scaled ? far : fallen;
    float value = -bessel_or_limit(x, x < 2.0 ? -inner : -outer);
    return x != x ? x : value;
}

float decaying_0(float x, bool scaled) {
    float low = min(x, 2.0), v = fma(low * low, 0.5, -1.0);
    float near = fma(-precise_log(low), near_i0(v), near_k0(v));
    return decaying(x, near, far_k0(2.0 / max(x, 2.0)), scaled);
}

float decaying_1(float x, bool scaled) {
    float low = min(x, 2.0), v = fma(low * low, 0.5, -1.0);
    float near = low * fma(precise_log(low), near_i1(v), near_k1(v)) + 1.0 / low;
    return decaying(x, near, far_k1(2.0 / max(x, 2.0)), scaled);
}

float precise_k0(float x) { return decaying_0(x, false); }

float precise_k1(float x) { return decaying_1(x, false); }

float precise_k0e(float x) { return decaying_0(x, true); }

float precise_k1e(float x) { return decaying_1(x, true); }

// Airy's function: near 0 in v, beyond over its decay; below as cosine and sine of a phase
// with slow factors P and Q / t (DLMF 9.7.9), like J and Y far from 0
float near_airy(float v) {
    float y = 0.000485812652;
    y = fma(y, v, 0.000464065055);
    y = fma(y, v, -0.00617904687);
    y = fma(y, v, 0.00412767181);
    y = fma(y, v, 0.0287690091);
    y = fma(y, v, -0.0648753471);
    y = fma(y, v, -0.0163956335);
    y = fma(y, v, 0.276698429);
    y = fma(y, v, -0.363922011);
    y = fma(y, v, -0.333483055);
    y = fma(y, v, 1.38655252);
    y = fma(y, v, -0.845090696);
    y = fma(y, v, -1.70073898);
    y = fma(y, v, 2.7066182);
    y = fma(y, v, 0.00123989209);
    y = fma(y, v, -2.1762024);
    y = fma(y, v, 0.772967418);
    y = fma(y, v, 0.464256576);
    return y;
}

float above_airy(float v) {
    float y = 6.24507349e-06;
    y = fma(y, v, -1.06103537e-05);
    y = fma(y, v, 1.44032167e-06);
    y = fma(y, v, -4.76973455e-06);
    y = fma(y, v, 3.09614231e-05);
    y = fma(y, v, -6.81801064e-05);
    y = fma(y, v, 0.000158380393);
    y = fma(y, v, -0.000452262142);
    y = fma(y, v, 0.00160830154);
    y = fma(y, v, -0.00875474492);
    y = fma(y, v, 0.270998886);
    return y;
}

float below_airy_p(float v) {
    float y = 1.047867e-07;
    y = fma(y, v, -9.26445846e-07);
    y = fma(y, v, 1.42575961e-05);
    y = fma(y, v, -0.000620988824);
    y = fma(y, v, 0.999363721);
    return y;
}

float below_airy_q(float v) {
    float y = 6.41282147e-08;
    y = fma(y, v, -4.50997846e-07);
    y = fma(y, v, 4.87617356e-06);
    y = fma(y, v, -0.000113833348);
    y = fma(y, v, 0.0129016077);
    return y;
}

float airy_phase(float x) { return 0.666666667 * x * sqrt(x); }

float precise_airy(float x) {
    float high = max(x, 1.0), above = airy_phase(high);
    float fallen = above_airy(1.33333333 / above - 1.0) * precise_exp(-above);
    fallen /= sqrt(sqrt(high));
    float low = max(-x, 4.0), below = airy_phase(low), t = 5.33333333 / below;
    float sine = precise_sin(below), cosine = precise_cos(below), v = fma(2.0 * t, t, -1.0);
    // Cosine and sine, times sqrt(2), of the phase less pi / 4
    float wave = below_airy_p(v) * (cosine + sine) + t * below_airy_q(v) * (sine - cosine);
    wave *= 0.39894228 / sqrt(sqrt(low));
    float inner = min(max(x, -4.0), 1.0);
    float near = near_airy(fma(inner, 0.4, 0.6)), far = x < 0.0 ? wave : fallen;
    float value = x > -4.0 && x < 1.0 ? near : far;
    return x != x || abs(x) > 3.4e38 ? NOT_A_NUMBER : value;
}

#ifdef FLOAT64
#include "lib/double/cylinder.glsl"
#endif
