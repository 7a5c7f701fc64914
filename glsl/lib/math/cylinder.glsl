// Bessel functions J, Y and K of order 0 and 1, and Airy's function, of float32
//
// J, Y and K by polynomials, which interpolate at the nodes of Chebyshev: near 0 in
// v = 2 (x / border)^2 - 1, between -1 and 1, far from it in 1 / x. Errors are 2^-26 of the
// largest value. The one far from it, which takes several times as long, is a branch.
//
// Airy's function is K of order 1/3 beyond its series (DLMF 9.4), and with
// cosh(t) = 1 + s * s / z in DLMF 10.32.9,
//
//     exp(z) K(z) = sqrt(2 / z) times the integral over s from 0 of
//         exp(-s * s) cosh(2 order asinh(w)) / sqrt(1 + w * w),  w * w = s * s / (2 z),
//
// which the trapezoidal rule gives to exp(-2 pi / SPACING times the distance of the
// singularity): 2^-27 with 10 nodes.

#include "arithmetic.glsl"
#include "exponential.glsl"
#include "trigonometric.glsl"

const float BESSEL_BORDER = 5.0;
const float SPACING = 0.45;
const uint QUADRATURE_NODES = 10u;

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

// 1 / sqrt(1 + i q) for q >= 0, with the root itself, a + i b, in `root`
vec2 inverse_root(float q, out vec2 root) {
    float size = precise_hypot(1.0, q);
    root.x = sqrt(0.5 * (size + 1.0));
    root.y = 0.5 * q / root.x;
    return vec2(root.x, -root.y) / size;
}

float airy_series(float x) {
    float cube = x * x * x, even = 0.355028054, odd = -0.258819404 * x, sum = even + odd;
    for (uint k = 0u; k < 8u; ++k) {
        float m = 3.0 * float(k);
        even *= cube / ((m + 2.0) * (m + 3.0));
        odd *= cube / ((m + 3.0) * (m + 4.0));
        sum += even + odd;
    }
    return sum;
}

// DLMF 9.6.1 above 0, 9.2.14 below: K of order 1/3 at 2/3 |x|^(3/2), or at i times it
float precise_airy(float x) {
    if (x != x || abs(x) > 3.4e38) return NOT_A_NUMBER;
    if (x > -2.3 && x < 1.3) return airy_series(x);
    float size = abs(x), root = sqrt(size), zeta = 0.666666667 * size * root;
    vec2 sum = vec2(0.5, 0.0), unit;
    for (uint k = 1u; k <= QUADRATURE_NODES; ++k) {
        float square = SPACING * SPACING * float(k * k), q = 0.5 * square / zeta;
        float weight = precise_exp(-square);
        if (x > 0.0) {
            float hyperbola = sqrt(1.0 + q);
            float power = precise_exp(0.666666667 * precise_log(sqrt(q) + hyperbola));
            sum.x += weight * 0.5 * (power + 1.0 / power) / hyperbola;
            continue;
        }
        vec2 inverse = inverse_root(q, unit);
        vec2 both = unit + sqrt(0.5 * q);
        float power = precise_exp(0.333333333 * precise_log(dot(both, both)));
        float angle = 0.666666667 * precise_atan2(both.y, both.x);
        vec2 hyperbolic = 0.5 * vec2((power + 1.0 / power) * precise_cos(angle),
                                     (power - 1.0 / power) * precise_sin(angle));
        sum += weight * vec2(dot(hyperbolic, vec2(inverse.x, -inverse.y)),
                             dot(hyperbolic, inverse.yx));
    }
    // sqrt(x / 3) sqrt(2 / zeta) is x^(-1/4).
    float scale = SPACING * inversesqrt(root);
    if (x > 0.0) return 0.318309886 * scale * sum.x * precise_exp(-zeta);
    float sine = precise_sin(zeta), cosine = precise_cos(zeta);
    // Re[(sum.x - i sum.y) exp(i (pi / 4 - zeta))] times sqrt(2)
    float turned = sum.x * (cosine + sine) + sum.y * (cosine - sine);
    return 0.450158158 * scale * turned;
}

#ifdef FLOAT64
#include "lib/double/cylinder.glsl"
#endif
