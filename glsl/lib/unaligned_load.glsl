// Unaligned load of 16-byte vectors: from the two aligned vectors that cover one

// The vector `start` bytes, fewer than 16, into the first; branchless, for invocations
// diverge.
uvec4 shifted(uvec4 low, uvec4 high, uint start) {
    bool by8 = (start & 8) != 0, by4 = (start & 4) != 0, by2 = (start & 2) != 0;
    low = mix(low, uvec4(low.zw, high.xy), bvec4(by8));
    high.xy = mix(high.xy, high.zw, bvec2(by8));
    low = mix(low, uvec4(low.yzw, high.x), bvec4(by4));
    high.x = mix(high.x, high.y, by4);
    low = mix(low, low >> 16 | uvec4(low.yzw, high.x) << 16, bvec4(by2));
#if BYTES == 1
    high.x = mix(high.x, high.x >> 16, by2);
    bool by1 = (start & 1) != 0;
    low = mix(low, low >> 8 | uvec4(low.yzw, high.x) << 24, bvec4(by1));
#endif
    return low;
}

// The first `bits` of a vector, or all, and zeros.
uvec4 first_bits(uvec4 vector, int bits) {
    ivec4 kept = clamp(ivec4(bits) - ivec4(0, 32, 64, 96), 0, 32);
    return mix((uvec4(1) << kept) - 1, uvec4(~0u), equal(kept, ivec4(32))) & vector;
}
