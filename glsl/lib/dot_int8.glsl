// dp4a: dot product of four packed int8 in each of two words
//
// Uses the device's instruction where the host defines INTEGER_DOT, if the compiler has
// the extension.
#if defined(INTEGER_DOT) && defined(GL_EXT_integer_dot_product)
#extension GL_EXT_integer_dot_product : require
int dot_int8(int a, int b) { return dotPacked4x8EXT(a, b); }
#else
int dot_int8(int a, int b) {
    int sum = 0;
    [[unroll]] for (int e = 0; e < 4; ++e)
        sum += bitfieldExtract(a, 8 * e, 8) * bitfieldExtract(b, 8 * e, 8);
    return sum;
}
#endif
