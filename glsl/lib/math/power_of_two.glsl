// Powers of two by the bits of their exponents

// Added to a number of less than 2^21 it leaves the nearest whole one in the lowest bits,
// which costs less than to round or to convert it; 2^23 of what is above them is 0.
const float TO_BITS = 12582912.0;

// 2^n for whole n from -126 to 127
float power_of_two(float n) {
    return uintBitsToFloat((floatBitsToUint(n + TO_BITS) << 23) + 0x3f800000u);
}

// x * 2^n for whole n, in two steps, so that neither factor leaves the range of float32.
float times_power_of_two(float x, float n) {
    uint bits = floatBitsToUint(n + TO_BITS), half_bits = bits >> 1;
    float first = uintBitsToFloat((half_bits << 23) + 0x3f800000u);
    return x * first * uintBitsToFloat((bits - half_bits << 23) + 0x3f800000u);
}
