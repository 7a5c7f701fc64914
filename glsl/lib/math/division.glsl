// Quotients, and those and square roots with the error of their last bit corrected
// source  Dekker, "A floating-point technique for extending the available precision",
//         1971: exact products; Vulkan allows quotients an error of 2.5 ulp
//
// They do not depend on denormal numbers, which some devices take for 0. Corrected
// quotients are rounded once, as IEEE 754 has them, and so are roots, but for two in a
// million; what `has_exact_rest` leaves out is as the device computes it.
// ROUNDED_QUOTIENTS is set where the device's own are rounded once.

#include "lib/opaque_zero.glsl"
#include "upper_half.glsl"

// x - a * b, exact but for the last bits of what is left
float rest_of_product(float x, float a, float b) {
    precise float a_high = upper_half(a), a_low = a - a_high;
    precise float b_high = upper_half(b), b_low = b - b_high;
    precise float rest = x - a_high * b_high;
    rest = rest - a_high * b_low - a_low * b_high - a_low * b_low;
    return rest;
}

// Whether no part of `rest_of_product` is too large or a denormal number
bool has_exact_rest(float x) {
#ifdef ROUNDED_QUOTIENTS
    return false;
#else
    return abs(x) > 1e-28 && abs(x) < 1e37;
#endif
}

// Some devices make 0 of 1 / y, and so of x / y, for the largest y.
float divided(float x, float y) {
    float scale = abs(y) > 4.25352959e+37 ? 0.25 : 1.0;
    return (x * scale) / (unknown(y) * scale);
}

float rounded_quotient(float x, float y) {
    float quotient = divided(x, y);
    if (has_exact_rest(x) && has_exact_rest(y) && has_exact_rest(quotient))
        quotient += rest_of_product(x, quotient, y) / y;
    return quotient;
}

float rounded_root(float x) {
    float root = sqrt(x);
    if (has_exact_rest(x)) root += 0.5 * rest_of_product(x, root, root) / root;
    return root;
}

#ifdef FLOAT64
double divided(double x, double y) {
    return x / unknown(y);
}

double rounded_quotient(double x, double y) {
    return divided(x, y);
}

double rounded_root(double x) {
    return sqrt(x);
}
#endif
