// Quotients that do not depend on denormal numbers, which some devices take for 0

#include "lib/opaque_zero.glsl"

// Such a device makes 0 of 1 / y, and so of x / y, for the largest y.
float divided(float x, float y) {
    float scale = abs(y) > 4.25352959e+37 ? 0.25 : 1.0;
    return (x * scale) / (unknown(y) * scale);
}

#ifdef FLOAT64
double divided(double x, double y) {
    return x / unknown(y);
}
#endif
