// Bessel functions J, Y and K of order 0 and 1, and Airy's function, of float32
//
// Near 0 by their series (DLMF 10.8, 10.31, 9.4). Beyond, all are K of some order at some
// z, and with cosh(t) = 1 + s * s / z in DLMF 10.32.9,
//
//     exp(z) K(z) = sqrt(2 / z) times the integral over s from 0 of
//         exp(-s * s) cosh(2 order asinh(w)) / sqrt(1 + w * w),  w * w = s * s / (2 z),
//
// which the trapezoidal rule gives to exp(-2 pi / SPACING times the distance of the
// singularity): 2^-27 with 10 nodes.

#include "arithmetic.glsl"
#include "exponential.glsl"
#include "trigonometric.glsl"

const float EULER_GAMMA = 0.577215665;
const float SPACING = 0.45;
const uint QUADRATURE_NODES = 10u;

// The sums of first and second kind over q = x * x / 4, of terms with alternating signs
// for J and Y (direction -1) and positive ones for I and K (1).
vec2 cylinder_series(float x, uint order, float direction) {
    float q = direction * 0.25 * x * x, term = 1.0;
    float logarithm = precise_log(0.5 * x) + EULER_GAMMA;
    float harmonic = order == 1u ? 0.5 : 0.0;
    vec2 sum = vec2(1.0, logarithm - harmonic);
    for (uint k = 1u; k < 14u; ++k) {
        term *= q / float(k * (k + order));
        float next = 1.0 / float(k);
        harmonic += order == 1u ? 0.5 * (next + 1.0 / float(k + 1u)) : next;
        sum += term * vec2(1.0, logarithm - harmonic);
    }
    return sum;
}

// 1 / sqrt(1 + i q) for q >= 0, with the root itself, a + i b, in `root`
vec2 inverse_root(float q, out vec2 root) {
    float size = precise_hypot(1.0, q);
    root.x = sqrt(0.5 * (size + 1.0));
    root.y = 0.5 * q / root.x;
    return vec2(root.x, -root.y) / size;
}

// exp(x) K(x) for x >= 1.5
float scaled_decaying(float x, uint order) {
    float sum = 0.5;
    for (uint k = 1u; k <= QUADRATURE_NODES; ++k) {
        float square = SPACING * SPACING * float(k * k), part = square / x;
        float top = order == 1u ? 1.0 + part : 1.0;
        sum += precise_exp(-square) * top / sqrt(1.0 + 0.5 * part);
    }
    return SPACING * sum * sqrt(2.0 / x);
}

// J and Y for x >= 3: K at -i x
vec2 oscillating(float x, uint order) {
    vec2 sum = vec2(0.5, 0.0), root;
    for (uint k = 1u; k <= QUADRATURE_NODES; ++k) {
        float square = SPACING * SPACING * float(k * k), q = 0.5 * square / x;
        vec2 value = inverse_root(q, root);
        if (order == 1u)
            value = vec2(value.x - 2.0 * q * value.y, value.y + 2.0 * q * value.x);
        sum += precise_exp(-square) * value;
    }
    float sine = precise_sin(x), cosine = precise_cos(x);
    // Of x - pi / 4, and a quarter turn less for order 1
    vec2 phase = vec2(cosine + sine, sine - cosine);
    if (order == 1u) phase = vec2(phase.y, -phase.x);
    float size = SPACING * 0.636619772 / sqrt(x);
    return size * vec2(sum.x * phase.x - sum.y * phase.y,
                       sum.x * phase.y + sum.y * phase.x);
}

float bessel_j(float x, uint order) {
    float size = abs(x), value;
    if (size < 3.0) {
        value = cylinder_series(max(size, 1e-37), order, -1.0).x;
        return order == 1u ? 0.5 * x * value : value;
    }
    value = oscillating(size, order).x;
    return order == 1u && x < 0.0 ? -value : value;
}

float bessel_y(float x, uint order) {
    if (x == 0.0) return -INFINITE;
    if (!(x > 0.0)) return NOT_A_NUMBER;
    if (x >= 3.0) return oscillating(x, order).y;
    float value = cylinder_series(x, order, -1.0).y;
    return 0.636619772 * (order == 1u ? 0.5 * x * value - 1.0 / x : value);
}

float decaying(float x, uint order, bool scaled) {
    if (x == 0.0) return INFINITE;
    if (!(x > 0.0)) return NOT_A_NUMBER;
    if (x >= 1.5) return scaled_decaying(x, order) * (scaled ? 1.0 : precise_exp(-x));
    float value = cylinder_series(x, order, 1.0).y;
    value = order == 1u ? 1.0 / x + 0.5 * x * value : -value;
    return scaled ? value * precise_exp(x) : value;
}

float precise_bessel_j0(float x) { return bessel_j(x, 0u); }

float precise_bessel_j1(float x) { return bessel_j(x, 1u); }

float precise_bessel_y0(float x) { return bessel_y(x, 0u); }

float precise_bessel_y1(float x) { return bessel_y(x, 1u); }

float precise_k0(float x) { return decaying(x, 0u, false); }

float precise_k1(float x) { return decaying(x, 1u, false); }

float precise_k0e(float x) { return decaying(x, 0u, true); }

float precise_k1e(float x) { return decaying(x, 1u, true); }

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
