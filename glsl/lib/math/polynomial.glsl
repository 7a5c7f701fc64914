// a + x (b + x (c + ...)) by Horner's rule
//
// With `fma`, so that a polynomial takes half the instructions also where nothing is
// contracted, as in generated kernels.

float polynomial(float x, float a, float b) {
    return fma(x, b, a);
}

float polynomial(float x, float a, float b, float c) {
    return fma(x, fma(x, c, b), a);
}

float polynomial(float x, float a, float b, float c, float d) {
    return fma(x, fma(x, fma(x, d, c), b), a);
}
