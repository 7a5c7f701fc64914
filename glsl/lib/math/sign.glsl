// The sign of a number by its bits

// The magnitude of x with the sign of y
float with_sign_of(float x, float y) {
    uint sign = floatBitsToUint(y) & 1u << 31;
    return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu | sign);
}
