// The same value, of which no compiler knows that it is always 0, as of x > x
//
// Of a 0 that it knows lavapipe makes 0 * x = 0 and 0 / x = 0 whatever x is, and of x / 0
// anything: what lies in a register, or nothing is written.

int unknown(int x) {
    return x + int(gl_LocalInvocationIndex >> 31);
}

uint unknown(uint x) {
    return x + (gl_LocalInvocationIndex >> 31);
}

bool unknown(bool x) {
    return x || gl_LocalInvocationIndex >> 31 != 0u;
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
