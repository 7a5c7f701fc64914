// Orthogonal polynomials of degree `n`, a fraction cut off, by their recurrences
//
// Families: 0 to 3 Chebyshev's of the four kinds, 4 and 5 Hermite's of physics and of
// probability, 6 Laguerre's, 7 Legendre's, 8 to 11 Chebyshev's at 2 x - 1. Degrees above
// 10,000 and NaN give NaN, those below 0 give 0.

#include "exponential.glsl"

float orthogonal_polynomial(float x, float n, float family) {
    float degree = trunc(n), z = family > 7.5 ? 2.0 * x - 1.0 : x;
    uint kind = uint(family > 7.5 ? family - 8.0 : family);
    if (!(degree <= 10000.0)) return NOT_A_NUMBER;
    if (degree < 0.0) return 0.0;
    if (degree < 1.0) return 1.0;
    float last = 1.0, current = kind == 1u || kind == 4u ? 2.0 * z : z;
    if (kind == 2u) current = 2.0 * z - 1.0;
    if (kind == 3u) current = 2.0 * z + 1.0;
    if (kind == 6u) current = 1.0 - z;
    for (float k = 1.0; k < degree; k += 1.0) {
        float next = 2.0 * z * current - last;
        if (kind == 4u) next = 2.0 * z * current - 2.0 * k * last;
        if (kind == 5u) next = z * current - k * last;
        if (kind == 6u) next = ((2.0 * k + 1.0 - z) * current - k * last) / (k + 1.0);
        if (kind == 7u) next = ((2.0 * k + 1.0) * z * current - k * last) / (k + 1.0);
        last = current;
        current = next;
        if (current != current) break;
    }
    return current;
}

#ifdef FLOAT64
double orthogonal_polynomial(double x, double n, double family) {
    double degree = trunc(n), z = family > 7.5lf ? 2.0lf * x - 1.0lf : x;
    uint kind = uint(family > 7.5lf ? family - 8.0lf : family);
    if (!(degree <= 10000.0lf)) return NAN_DOUBLE;
    if (degree < 0.0lf) return 0.0lf;
    if (degree < 1.0lf) return 1.0lf;
    double last = 1.0lf, current = kind == 1u || kind == 4u ? 2.0lf * z : z;
    if (kind == 2u) current = 2.0lf * z - 1.0lf;
    if (kind == 3u) current = 2.0lf * z + 1.0lf;
    if (kind == 6u) current = 1.0lf - z;
    for (double k = 1.0lf; k < degree; k += 1.0lf) {
        double next = 2.0lf * z * current - last;
        if (kind == 4u) next = 2.0lf * z * current - 2.0lf * k * last;
        if (kind == 5u) next = z * current - k * last;
        if (kind == 6u) next = ((2.0lf * k + 1.0lf - z) * current - k * last) / (k + 1.0lf);
        if (kind == 7u) next = ((2.0lf * k + 1.0lf) * z * current - k * last) / (k + 1.0lf);
        last = current;
        current = next;
        if (current != current) break;
    }
    return current;
}
#endif
