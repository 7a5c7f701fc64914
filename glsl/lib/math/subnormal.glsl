// Comparisons of floats by their bits, for devices that take denormal numbers as 0

bool is_nonzero(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) != 0u;
}

// Numbers in order as integers; both zeros are 0.
int number_order(float x) {
    int bits = floatBitsToInt(x);
    return bits < 0 ? -(bits & 0x7fffffff) : bits;
}

bool is_number(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) <= 0x7f800000u;
}

bool same_number(float x, float y) {
    return is_number(x) && number_order(x) == number_order(y);
}

bool smaller_number(float x, float y) {
    return is_number(x) && is_number(y) && number_order(x) < number_order(y);
}

bool smaller_or_same(float x, float y) {
    return is_number(x) && is_number(y) && number_order(x) <= number_order(y);
}

float sign_of_bits(float x) {
    if (!is_number(x) || !is_nonzero(x)) return 0.0;
    return floatBitsToInt(x) < 0 ? -1.0 : 1.0;
}
