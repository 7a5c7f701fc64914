// Scales of float32 rounded to float16: powers of two, for which no number is too large
//
// Numbers that share a scale are multiplied by 2^-e, where e is their exponent: that
// brings the largest finite one to 2^14 at least and below 2^15. Those down to 2^-29 of it
// keep 11 bits, as many as TF32 has; smaller ones lose some, and an infinity or NaN stays
// what it is. Products are multiplied by 2 to the sum of both factors' exponents.

const int LARGEST_EXPONENT = 14;

// Bits of the magnitude of a finite number, which compare as magnitudes do; 0 of others.
uint finite_magnitude(float value) {
    uint bits = floatBitsToUint(value) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

// The exponent of numbers whose largest magnitude has these bits, from -126 to 113.
int scale_exponent(uint largest) {
    const int SMALLEST = LARGEST_EXPONENT + 1;  // biased; what is smaller has its scale
    return max(int(largest >> 23), SMALLEST) - 127 - LARGEST_EXPONENT;
}

// Of an exponent from -126 to 127.
float power_of_two(int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

// 2^e in two factors that are both at least 1 or both at most 1, so that no product
// overflows or vanishes whose result does not: e is from -252 to 226.
vec2 power_in_factors(int exponent) {
    int half_of = exponent >> 1;
    return vec2(power_of_two(half_of), power_of_two(exponent - half_of));
}
