// 8-bit float conversion: sign, exponent of a bias, mantissa of some bits
//
// Rounding is to nearest, ties to even, as in framework/base/float8.py, which has the
// formats.

// The code of |x|, which is no NaN; `over` if it is above the code `most`.
uint float8_code(float x, int mantissa, int bias, uint most, uint over) {
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    int shift = 23 - mantissa;
    // Below the smallest normal number an addition rounds to whole steps.
    uint magic = uint(127 + 1 - bias - mantissa + 23) << 23;
    uint small = floatBitsToUint(uintBitsToFloat(bits) + uintBitsToFloat(magic)) - magic;
    uint rounded = bits + (1u << (shift - 1)) - 1u + (bits >> shift & 1u);
    uint normal = (rounded >> shift) - (uint(127 - bias) << mantissa);
    uint code = bits < uint(128 - bias) << 23 ? small : normal;
    return code > most ? over : code;
}

// The bits of the float32 without sign that a code, of which none is special, stands for.
uint float8_number(uint code, int mantissa, int bias) {
    uint steps = code & ((1u << mantissa) - 1u);
    float unit = uintBitsToFloat(uint(127 + 1 - bias - mantissa) << 23);
    return code >> mantissa == 0u
        ? floatBitsToUint(float(steps) * unit)
        : (code << (23 - mantissa)) + (uint(127 - bias) << 23);
}

uint to_float8_e4m3fn(float x) {
    uint sign = floatBitsToUint(x) >> 24 & 0x80u;
    return sign | (x != x ? 0x7fu : float8_code(x, 3, 7, 0x7eu, 0x7eu));
}

uint to_float8_e5m2(float x) {
    uint sign = floatBitsToUint(x) >> 24 & 0x80u;
    return sign | (x != x ? 0x7fu : float8_code(x, 2, 15, 0x7bu, 0x7cu));
}

// Of formats without a negative zero: 0x80 is NaN.
uint unsigned_zero(uint code, float x) {
    return code == 0u || code == 0x80u ? code : code | floatBitsToUint(x) >> 24 & 0x80u;
}

uint to_float8_e4m3fnuz(float x) {
    return x != x ? 0x80u : unsigned_zero(float8_code(x, 3, 8, 0x7fu, 0x80u), x);
}

uint to_float8_e5m2fnuz(float x) {
    return x != x ? 0x80u : unsigned_zero(float8_code(x, 2, 16, 0x7fu, 0x80u), x);
}

float from_float8_e4m3fn(uint bits) {
    uint code = bits & 0x7fu;
    uint number = code == 0x7fu ? 0x7fc00000u : float8_number(code, 3, 7);
    return uintBitsToFloat((bits & 0x80u) << 24 | number);
}

float from_float8_e5m2(uint bits) {
    uint code = bits & 0x7fu;
    uint special = code == 0x7cu ? 0x7f800000u : 0x7fc00000u;
    uint number = code >= 0x7cu ? special : float8_number(code, 2, 15);
    return uintBitsToFloat((bits & 0x80u) << 24 | number);
}

float from_float8_e4m3fnuz(uint bits) {
    uint number = float8_number(bits & 0x7fu, 3, 8);
    return uintBitsToFloat(bits == 0x80u ? 0x7fc00000u : (bits & 0x80u) << 24 | number);
}

float from_float8_e5m2fnuz(uint bits) {
    uint number = float8_number(bits & 0x7fu, 2, 16);
    return uintBitsToFloat(bits == 0x80u ? 0x7fc00000u : (bits & 0x80u) << 24 | number);
}

float round_float8_e4m3fn(float x) { return from_float8_e4m3fn(to_float8_e4m3fn(x)); }

float round_float8_e5m2(float x) { return from_float8_e5m2(to_float8_e5m2(x)); }

float round_float8_e4m3fnuz(float x) {
    return from_float8_e4m3fnuz(to_float8_e4m3fnuz(x));
}

float round_float8_e5m2fnuz(float x) {
    return from_float8_e5m2fnuz(to_float8_e5m2fnuz(x));
}
