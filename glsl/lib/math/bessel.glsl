// Modified Bessel functions of the first kind, of order 0 and 1, of float32
//
// Up to 12 by their series, of positive terms alone, which has few of them up to 4; above
// by the asymptotic expansion, whose smallest term is e^-24 there.

#include "exponential.glsl"

// I(x) of order 0 for |x| <= 4
float near_i0(float x) {
    float u = 0.25 * x * x;
    float y = 7.59405843e-14;
    y = fma(y, u, 7.59405843e-12);
    y = fma(y, u, 6.15118733e-10);
    y = fma(y, u, 3.93675989e-08);
    y = fma(y, u, 1.92901235e-06);
    y = fma(y, u, 6.94444444e-05);
    y = fma(y, u, 0.00173611111);
    y = fma(y, u, 0.0277777778);
    y = fma(y, u, 0.25);
    y = fma(y, u, 1.0);
    y = fma(y, u, 1.0);
    return y;
}

// I(x) of order 1 for |x| <= 4
float near_i1(float x) {
    float u = 0.25 * x * x;
    float y = 6.90368948e-15;
    y = fma(y, u, 7.59405843e-13);
    y = fma(y, u, 6.83465259e-11);
    y = fma(y, u, 4.92094986e-09);
    y = fma(y, u, 2.75573192e-07);
    y = fma(y, u, 1.15740741e-05);
    y = fma(y, u, 0.000347222222);
    y = fma(y, u, 0.00694444444);
    y = fma(y, u, 0.0833333333);
    y = fma(y, u, 0.5);
    y = fma(y, u, 1.0);
    return 0.5 * x * y;
}

// exp(-|x|) I(x) for order 0 or 1
float scaled_bessel(float x, uint order) {
    if (x != x) return x;
    float size = abs(x), sum = 1.0, term = 1.0;
    if (size <= 12.0) {
        float quarter = 0.25 * size * size;
        for (uint k = 1u; k < 48u; ++k) {
            term *= quarter / float(k * (k + order));
            sum += term;
            if (term < sum * 2.9e-8) break;
        }
        sum *= precise_exp(-size) * (order == 1u ? 0.5 * size : 1.0);
    } else {
        float inverse = 1.0 / size, fourth = order == 1u ? 4.0 : 0.0;
        for (uint k = 1u; k < 14u; ++k) {
            float odd = float(2u * k - 1u);
            term *= (odd * odd - fourth) * inverse / float(8u * k);
            sum += term;
        }
        sum *= inversesqrt(6.28318531 * size);
    }
    return order == 1u && x < 0.0 ? -sum : sum;
}

float precise_i0e(float x) {
    if (abs(x) <= 4.0) return near_i0(x) * precise_exp(-abs(x));
    return scaled_bessel(x, 0u);
}

float precise_i1e(float x) {
    if (abs(x) <= 4.0) return near_i1(x) * precise_exp(-abs(x));
    return scaled_bessel(x, 1u);
}

// exp(|x|) may be out of range where the product is not: it is taken in halves.
float unscaled_bessel(float x, uint order) {
    float root = precise_exp(0.5 * abs(x));
    return scaled_bessel(x, order) * root * root;
}

float precise_i0(float x) {
    if (abs(x) <= 4.0) return near_i0(x);
    return abs(x) > 3.4e38 ? INFINITE : unscaled_bessel(x, 0u);
}

float precise_i1(float x) {
    if (abs(x) <= 4.0) return near_i1(x);
    return abs(x) > 3.4e38 ? (x < 0.0 ? -INFINITE : INFINITE) : unscaled_bessel(x, 1u);
}

#ifdef FLOAT64
#include "lib/double/bessel.glsl"
#endif
