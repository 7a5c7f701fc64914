// Eight neighbours of a line of float32, and the vector of float16 that they become
//
// With WIDE_LOADS a line is contiguous, starts at a multiple of 16 bytes and is of whole
// vectors of four; the includer has GL_EXT_buffer_reference_uvec2.

struct Eight {
    vec4 low, high;
};

#ifdef WIDE_LOADS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Fours { vec4 at[]; };
#endif

// The vector with a number of the line that starts at `from`, zeros past its end.
Eight loaded(In x, uint from, uint vector, uint elements, uint stride) {
#ifdef WIDE_LOADS
    Fours fours = Fours(uvec2(x));
    uint at = from / 4 + 2 * vector;
    bool both = 8 * vector + 4 < elements;
    vec4 high = fours.at[both ? at + 1 : at];
    return Eight(fours.at[at], both ? high : vec4(0));
#else
    float each[8];
    [[unroll]] for (uint i = 0; i < 8; ++i) {
        uint at = 8 * vector + i;
        bool inside = at < elements;
        float value = load(x, from + (inside ? at : 0) * stride);
        each[i] = inside ? value : 0.0;
    }
    return Eight(vec4(each[0], each[1], each[2], each[3]),
        vec4(each[4], each[5], each[6], each[7]));
#endif
}

uint largest_of(Eight values) {
    uint most = 0;
    [[unroll]] for (uint i = 0; i < 4; ++i)
        most = max(most,
            max(finite_magnitude(values.low[i]), finite_magnitude(values.high[i])));
    return most;
}

uvec4 rounded(vec4 low, vec4 high) {
    return uvec4(pack_float16(low.x, low.y), pack_float16(low.z, low.w),
        pack_float16(high.x, high.y), pack_float16(high.z, high.w));
}

uvec4 scaled(Eight values, float factor) {
    return rounded(values.low * factor, values.high * factor);
}
