// Comparisons of floats by their bits, for devices that take denormal numbers as 0
//
// Such a device compares right unless it takes both for 0: then it finds them the same, and
// their bits decide. Nothing is computed in branches, as the operators && and || do it: a
// compiler may keep those, and a kernel of 2-byte floats takes twice as long.

bool is_nonzero(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) != 0u;
}

// Numbers in order as integers; both zeros are 0.
int number_order(float x) {
    int bits = floatBitsToInt(x), sign = bits >> 31;
    return ((bits & 0x7fffffff) ^ sign) - sign;
}

bool same_number(float x, float y) {
    uint first = floatBitsToUint(x), second = floatBitsToUint(y);
    bool zeros = ((first | second) & 0x7fffffffu) == 0u;
    return all(bvec2(x == y, any(bvec2(first == second, zeros))));
}

bool smaller_number(float x, float y) {
    bool smaller = number_order(x) < number_order(y);
    return any(bvec2(x < y, all(bvec2(x == y, smaller))));
}

bool smaller_or_same(float x, float y) {
    bool wrong = number_order(x) > number_order(y);
    return all(bvec2(x <= y, !all(bvec2(x == y, wrong))));
}

float sign_of_bits(float x) {
    float sign = uintBitsToFloat(floatBitsToUint(x) & 0x80000000u | 0x3f800000u);
    return all(bvec2(x == x, is_nonzero(x))) ? sign : 0.0;
}
