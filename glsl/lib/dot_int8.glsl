// dp4a: dot product of four packed bytes in each of two words
//
// dot_int8 has signed ones, dot_uint8 unsigned ones, dot_int8_uint8 such in the second
// word alone. Uses the device's instruction where the host defines INTEGER_DOT, if the
// compiler has the extension.
#if defined(INTEGER_DOT) && defined(GL_EXT_integer_dot_product)
#extension GL_EXT_integer_dot_product : require
int dot_int8(int a, int b) { return dotPacked4x8EXT(a, b); }
int dot_int8_uint8(int a, uint b) { return dotPacked4x8EXT(a, b); }
uint dot_uint8(uint a, uint b) { return dotPacked4x8EXT(a, b); }
#else
int dot_int8(int a, int b) {
    int sum = 0;
    [[unroll]] for (int e = 0; e < 4; ++e)
        sum += bitfieldExtract(a, 8 * e, 8) * bitfieldExtract(b, 8 * e, 8);
    return sum;
}
int dot_int8_uint8(int a, uint b) {
    int sum = 0;
    [[unroll]] for (int e = 0; e < 4; ++e)
        sum += bitfieldExtract(a, 8 * e, 8) * int(bitfieldExtract(b, 8 * e, 8));
    return sum;
}
uint dot_uint8(uint a, uint b) {
    uint sum = 0;
    [[unroll]] for (int e = 0; e < 4; ++e)
        sum += bitfieldExtract(a, 8 * e, 8) * bitfieldExtract(b, 8 * e, 8);
    return sum;
}
#endif
