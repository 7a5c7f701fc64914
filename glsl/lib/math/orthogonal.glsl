// Orthogonal polynomials of degree `n`, a fraction cut off, by their recurrences
//
// Families: 0 to 3 Chebyshev's of the four kinds, 4 and 5 Hermite's of physics and of
// probability, 6 Laguerre's, 7 Legendre's, 8 to 11 Chebyshev's at 2 x - 1. Degrees above
// 10,000 and NaN give NaN, those below 0 give 0.

#include "exponential.glsl"

// Each family has a loop of its own: which it is does not differ within a kernel.
float orthogonal_polynomial(float x, float n, float family) {
    float degree = trunc(n), z = family > 7.5 ? 2.0 * x - 1.0 : x, twice = 2.0 * z;
    uint kind = uint(family > 7.5 ? family - 8.0 : family);
    bool known = degree <= 10000.0;
    float end = known ? degree : 0.0;
    float last = 1.0, current = kind == 1u || kind == 4u ? twice : z;
    if (kind == 2u) current = twice - 1.0;
    if (kind == 3u) current = twice + 1.0;
    if (kind == 6u) current = 1.0 - z;
    // What is NaN stays so.
#define STEPS(next)                                                \
    for (float k = 1.0; k < end && current == current; k += 1.0) { \
        float following = next;                                    \
        last = current;                                            \
        current = following;                                       \
    }
    if (kind < 4u) {
        STEPS(twice * current - last)
    } else if (kind == 4u) {
        STEPS(twice * current - 2.0 * k * last)
    } else if (kind == 5u) {
        STEPS(z * current - k * last)
    } else if (kind == 6u) {
        STEPS(((2.0 * k + 1.0 - z) * current - k * last) / (k + 1.0))
    } else {
        STEPS(((2.0 * k + 1.0) * z * current - k * last) / (k + 1.0))
    }
#undef STEPS
    float low = degree < 0.0 ? 0.0 : 1.0;
    return !known ? NOT_A_NUMBER : degree < 1.0 ? low : current;
}

#ifdef FLOAT64
double orthogonal_polynomial(double x, double n, double family) {
    double degree = trunc(n), z = family > 7.5lf ? 2.0lf * x - 1.0lf : x, twice = 2.0lf * z;
    uint kind = uint(family > 7.5lf ? family - 8.0lf : family);
    bool known = degree <= 10000.0lf;
    double end = known ? degree : 0.0lf;
    double last = 1.0lf, current = kind == 1u || kind == 4u ? twice : z;
    if (kind == 2u) current = twice - 1.0lf;
    if (kind == 3u) current = twice + 1.0lf;
    if (kind == 6u) current = 1.0lf - z;
    // What is NaN stays so.
#define STEPS(next)                                                     \
    for (double k = 1.0lf; k < end && current == current; k += 1.0lf) { \
        double following = next;                                        \
        last = current;                                                 \
        current = following;                                            \
    }
    if (kind < 4u) {
        STEPS(twice * current - last)
    } else if (kind == 4u) {
        STEPS(twice * current - 2.0lf * k * last)
    } else if (kind == 5u) {
        STEPS(z * current - k * last)
    } else if (kind == 6u) {
        STEPS(((2.0lf * k + 1.0lf - z) * current - k * last) / (k + 1.0lf))
    } else {
        STEPS(((2.0lf * k + 1.0lf) * z * current - k * last) / (k + 1.0lf))
    }
#undef STEPS
    double low = degree < 0.0lf ? 0.0lf : 1.0lf;
    return !known ? NAN_DOUBLE : degree < 1.0lf ? low : current;
}
#endif
