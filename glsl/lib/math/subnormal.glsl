// Comparisons of floats by their bits, for devices that take denormal numbers as 0
//
// Such a device finds numbers the same that it takes for 0, but no number larger than one
// that is not smaller, and NaN as it is: beside its comparison that of the bits decides.
// Nothing is computed in branches, as the operators && and || do it: a compiler may keep
// those, and a kernel of 2-byte floats takes twice as long.

bool is_nonzero(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) != 0u;
}

// Numbers in order as integers: -1 is -0.0, and 0 is 0.0.
int number_order(float x) {
    int bits = floatBitsToInt(x);
    return bits ^ bits >> 31 & 0x7fffffff;
}

// Both zeros as one of them
int number_order_or(float x, int zero) {
    int order = number_order(x);
    return is_nonzero(x) ? order : zero;
}

bool same_number(float x, float y) {
    uint first = floatBitsToUint(x), second = floatBitsToUint(y);
    bool zeros = ((first | second) & 0x7fffffffu) == 0u;
    return all(bvec2(x == y, any(bvec2(first == second, zeros))));
}

// The second operand is that which most often is a number for all: what is done to it alone
// is done once.
bool smaller_number(float x, float y) {
    return all(bvec2(x <= y, number_order(x) < number_order_or(y, -1)));
}

bool larger_number(float x, float y) {
    return all(bvec2(x >= y, number_order(x) > number_order_or(y, 0)));
}

// The same where it does not matter which of two zeros is found: -0.0 is the smaller.
bool smaller_in_order(float x, float y) {
    return all(bvec2(x <= y, number_order(x) < number_order(y)));
}

bool larger_in_order(float x, float y) {
    return all(bvec2(x >= y, number_order(x) > number_order(y)));
}

bool smaller_or_same(float x, float y) {
    return all(bvec2(x <= y, number_order(x) <= number_order_or(y, 0)));
}

bool larger_or_same(float x, float y) {
    return all(bvec2(x >= y, number_order(x) >= number_order_or(y, -1)));
}

// Whether a number is below a bound that is not above 0, or above one that is not below:
// bits in a range that ends with infinity. NaN is neither, nor is a zero beside a zero.
bool below_bound(float x, float low) {
    uint bound = floatBitsToUint(low) | 0x80000000u;
    return floatBitsToUint(x) - bound - 1u < 0xff800000u - bound;
}

bool above_bound(float x, float high) {
    uint bound = floatBitsToUint(high) & 0x7fffffffu;
    return floatBitsToUint(x) - bound - 1u < 0x7f800000u - bound;
}

float sign_of_bits(float x) {
    float sign = uintBitsToFloat(floatBitsToUint(x) & 0x80000000u | 0x3f800000u);
    return all(bvec2(x == x, is_nonzero(x))) ? sign : 0.0;
}
