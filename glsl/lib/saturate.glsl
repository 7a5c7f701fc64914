// Saturating conversions between types, beyond those of GLSL

#include "lib/opaque_zero.glsl"

#ifdef INT64
// lavapipe 22.3 takes int64_t(x) < 0, or any comparison with a constant, for false.
int64_t widened(int x) {
    return int64_t(packUint2x32(uvec2(uint(x), uint(x >> 31))));
}
#endif

// Floats to integers: cut towards zero, the nearest end beyond the range, 0 for NaN.
// `low` and `high` may be rounded up as floats; every float between them fits.
#define SATURATE(REAL, INTEGER)                                                        \
    INTEGER saturate(REAL x, INTEGER low, INTEGER high) {                              \
        bool inside = x > REAL(low) && x < REAL(high);                                 \
        INTEGER end = x <= REAL(low) ? low : x >= REAL(high) ? high : INTEGER(0);      \
        return inside ? INTEGER(x) : end;                                              \
    }

SATURATE(float, int)
SATURATE(float, uint)
#ifdef INT64
SATURATE(float, int64_t)
SATURATE(float, uint64_t)
#endif
#ifdef FLOAT64
SATURATE(double, int)
SATURATE(double, uint)
#ifdef INT64
SATURATE(double, int64_t)
SATURATE(double, uint64_t)
#endif
#endif
