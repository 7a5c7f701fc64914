// Modified Bessel functions of the first kind, of order 0 and 1, of float32
//
// Up to 4 by their series, of positive terms alone; above by a minimax polynomial in 1 / x.

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

// exp(-x) sqrt(x) I(x) of order 0 for x >= 4, in t = 8 / x - 1; relative error 2^-26
float far_i0(float t) {
    float y = -2.29649777e-06;
    y = fma(y, t, 5.65952814e-06);
    y = fma(y, t, 1.17348582e-05);
    y = fma(y, t, -1.95363173e-05);
    y = fma(y, t, -3.7401398e-05);
    y = fma(y, t, 9.79356537e-06);
    y = fma(y, t, 7.95266678e-05);
    y = fma(y, t, 0.000185445984);
    y = fma(y, t, 0.000735149195);
    y = fma(y, t, 0.00734942313);
    y = fma(y, t, 0.405686349);
    return y;
}

// The same of order 1
float far_i1(float t) {
    float y = 1.84546184e-06;
    y = fma(y, t, -5.94923085e-06);
    y = fma(y, t, -1.04402598e-05);
    y = fma(y, t, 2.17067245e-05);
    y = fma(y, t, 3.81030368e-05);
    y = fma(y, t, -1.41007249e-05);
    y = fma(y, t, -9.40838218e-05);
    y = fma(y, t, -0.000235509695);
    y = fma(y, t, -0.00112570811);
    y = fma(y, t, -0.0204864517);
    y = fma(y, t, 0.379412264);
    return y;
}

// exp(-x) I(x) for x >= 4
float scaled_far_i0(float x) { return far_i0(8.0 / x - 1.0) * inversesqrt(x); }

float scaled_far_i1(float x) { return far_i1(8.0 / x - 1.0) * inversesqrt(x); }

// exp(x) may be out of range where the product is not: it is taken in halves.
float with_exponential(float value, float size) {
    float root = precise_exp(0.5 * size);
    return size > 3.4e38 ? INFINITE : value * root * root;
}

// One branch, as few programs have numbers beyond 4; NaN is among those up to it.
float precise_i0e(float x) {
    float size = abs(x), value = near_i0(x) * precise_exp(-size);
    if (size > 4.0) value = scaled_far_i0(size);
    return value;
}

float precise_i1e(float x) {
    float size = abs(x), value = near_i1(size) * precise_exp(-size);
    if (size > 4.0) value = scaled_far_i1(size);
    return with_sign_of(value, x);
}

float precise_i0(float x) {
    float size = abs(x), value = near_i0(x);
    if (size > 4.0) value = with_exponential(scaled_far_i0(size), size);
    return value;
}

float precise_i1(float x) {
    float size = abs(x), value = near_i1(size);
    if (size > 4.0) value = with_exponential(scaled_far_i1(size), size);
    return with_sign_of(value, x);
}

#ifdef FLOAT64
#include "lib/double/bessel.glsl"
#endif
