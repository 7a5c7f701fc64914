// Opaque zero: a value that compilers cannot fold although it is always 0, as of x > x
//
// With a known 0 lavapipe folds 0 * x and 0 / x to 0 whatever x is, and x / 0 to an
// undefined value: stale registers, or no store at all.

int unknown(int x) {
    return x + int(gl_LocalInvocationIndex >> 31);
}

uint unknown(uint x) {
    return x + (gl_LocalInvocationIndex >> 31);
}

// Without ||, which may be a branch
bool unknown(bool x) {
    return any(bvec2(x, gl_LocalInvocationIndex >> 31 != 0u));
}

float unknown(float x) {
    return uintBitsToFloat(unknown(floatBitsToUint(x)));
}

#ifdef FLOAT64
double unknown(double x) {
    uvec2 bits = unpackDouble2x32(x);
    return packDouble2x32(uvec2(unknown(bits.x), bits.y));
}
#endif

#ifdef INT64
int64_t unknown(int64_t x) {
    return x + int64_t(gl_LocalInvocationIndex >> 31);
}

uint64_t unknown(uint64_t x) {
    return x + uint64_t(gl_LocalInvocationIndex >> 31);
}
#endif
