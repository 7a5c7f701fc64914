// The sum of the products of four int8 in one word with four in another
//
// On the device's own instruction where the host defines INTEGER_DOT, for it has one,
// and the compiler knows the extension.
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
