// Whole numbers next to a number

float nearest_whole(float x) { return roundEven(x); }

float whole_part(float x) { return trunc(x); }

#ifdef FLOAT64
// roundEven and trunc of doubles give those from 2^24 on back as they are in lavapipe 22.3
// where the processor has no AVX-512; floor does not.
double with_sign_bit(double size, double x) {
    uvec2 bits = unpackDouble2x32(size), given = unpackDouble2x32(x);
    return packDouble2x32(uvec2(bits.x, bits.y | given.y & 1u << 31));
}

double nearest_whole(double x) {
    double size = abs(x);
    precise double shifted = size + 4503599627370496.0lf;
    precise double whole = shifted - 4503599627370496.0lf;
    return with_sign_bit(size < 4503599627370496.0lf ? whole : size, x);
}

double whole_part(double x) { return with_sign_bit(floor(abs(x)), x); }
#endif
