// Inverse of the error function, and quantiles of the normal distribution, of float32
// source  Giles, "Approximating the erfinv function", 2011: in the logarithm of 1 - x^2 the
//         function is smooth; the polynomials are minimax fits of our own

#include "exponential.glsl"

// The ratio of erfinv(x) to x, and of a quantile of the normal distribution to sqrt(2) (2 p - 1),
// as they depend on w = -log(1 - x^2) = -log(4 p (1 - p)): polynomials in w up to 6, and in its
// root up to 17, which float32 has of x, and up to 104, which it has of p. Few numbers are
// not in the first piece. Errors 2^-24.
float quantile_ratio(float w) {
    if (w > 6.0) {
        float root = sqrt(w), t = root - 3.25;
        if (w > 17.0) {
            t = root - 7.0;
            float series = polynomial(t, 2.74695878e-07, -9.00708272e-08, 1.38059697e-08);
            series = polynomial(t, 6.17090609e-06, -1.36179426e-06, series);
            series = polynomial(t, -0.000512710772, 5.67011693e-06, series);
            return polynomial(t, 6.86901951, 1.00859594, series);
        }
        float series = polynomial(t, 0.000989560271, -0.000235903761, -4.39379874e-05);
        series = polynomial(t, 0.00248395768, -0.00174967432, series);
        series = polynomial(t, 0.00537109235, -0.00374037516, series);
        return polynomial(t, 3.08388567, 1.00525856, series);
    }
    float t = w - 2.5;
    float series = polynomial(t, 4.22993224e-07, 2.19885035e-08, -5.91704596e-09);
    series = polynomial(t, -4.74751914e-06, -3.45182616e-06, series);
    series = polynomial(t, -0.00125312852, 0.000218331275, series);
    return polynomial(t, 1.50140941, 0.246640444, -0.00417743484, series);
}

// -log(x), which 0 has too
float falling_log(float x) {
    float n;
    float f = reduce_logarithm(x, n);
    return -logarithm(f, n);
}

// An odd function's value for -1 < x < 1, which is infinite at both ends
float between_ends(float x, float value) {
    float size = abs(x);
    return size < 1.0 ? value : size == 1.0 ? x * INFINITE : NOT_A_NUMBER;
}

float precise_erfinv(float x) {
    return between_ends(x, x * quantile_ratio(falling_log((1.0 - x) * (1.0 + x))));
}

// x for which a standard normal number is less with probability p
float normal_quantile(float p) {
    float x = fma(2.0, p, -1.0), w = falling_log(4.0 * p * (1.0 - p));
    // Other numbers than 0 and 1 may be rounded to -1 and 1.
    float value = x * 1.41421354 * quantile_ratio(w);
    return p > 0.0 && p < 1.0 ? value : p == 0.0 || p == 1.0 ? x * INFINITE : NOT_A_NUMBER;
}

// The same for results that are rounded to 2 bytes: one polynomial up to 17, in
// (w - 8) / (w + 8), with a relative error of 2^-16
float quick_quantile_ratio(float w) {
    float t = (w - 8.0) * (1.0 / (w + 8.0));
    float series = polynomial(t, 0.519503832, 0.329896122, 0.117088243);
    series = polynomial(t, 1.23449123, 1.44796741, 0.996665001, series);
    return polynomial(t, 2.66147995, 2.82166123, 1.52291501, series);
}

float quick_erfinv(float x) {
    float w = -0.693147182 * log2((1.0 - x) * (1.0 + x));
    return between_ends(x, x * quick_quantile_ratio(w));
}

#ifdef FLOAT64
#include "lib/double/quantile.glsl"
#endif
