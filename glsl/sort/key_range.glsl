// Range of the keys of a radix sort, which has no more digits than the keys differ in
//
//   KeyRange              least key (low and high word), and the number of digits of what
//                         keys are above it; of `sort/key_range`, or any with RANGED = 0
//   digits_of(range)
//   least_of(range)       the key that is subtracted; with `sort/keys.glsl`
//   above(key, least)     key - least; with `sort/keys.glsl`

layout(constant_id = 8) const uint RANGED = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    KeyRange { uint at[]; };

// Whether a pass has a digit to sort by.
bool has_digit(KeyRange range, uint shift) {
    return RANGED == 0 || shift < 8 * range.at[2];
}

#ifdef KEY
// Whether it is the last pass, which writes the results.
bool is_last_digit(KeyRange range, uint shift) {
    uint digits = BYTES;
    if (RANGED != 0) digits = range.at[2];
    return shift + 8 == 8 * digits;
}

KEY least_of(KeyRange range) {
    KEY least = KEY(0);
#if BYTES == 8
    if (RANGED != 0) least = uvec2(range.at[0], range.at[1]);
#else
    if (RANGED != 0) least = range.at[0];
#endif
    return least;
}

KEY above(KEY key, KEY least) {
#if BYTES == 8
    uint borrow, low = usubBorrow(key.x, least.x, borrow);
    return uvec2(low, key.y - least.y - borrow);
#else
    return key - least;
#endif
}
#endif
