// The upper 12 bits of a significand: two such numbers have an exact product

float upper_half(float x) {
    return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
}
