// Modified Bessel functions of the first kind, of order 0 and 1, of float32
//
// Up to 12 by their series, of positive terms alone; above by the asymptotic expansion,
// whose smallest term is e^-24 there.

#include "exponential.glsl"

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
    return scaled_bessel(x, 0u);
}

float precise_i1e(float x) {
    return scaled_bessel(x, 1u);
}

// exp(|x|) may be out of range where the product is not: it is taken in halves.
float unscaled_bessel(float x, uint order) {
    float root = precise_exp(0.5 * abs(x));
    return scaled_bessel(x, order) * root * root;
}

float precise_i0(float x) {
    return abs(x) > 3.4e38 ? INFINITE : unscaled_bessel(x, 0u);
}

float precise_i1(float x) {
    return abs(x) > 3.4e38 ? (x < 0.0 ? -INFINITE : INFINITE) : unscaled_bessel(x, 1u);
}
