// Counter-based random numbers: Philox4x32-10
//
// Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
// Known answers of Random123 (counter; key -> result):
//   00000000 00000000 00000000 00000000; 00000000 00000000
//     -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8
//   ffffffff ffffffff ffffffff ffffffff; ffffffff ffffffff
//     -> 408f276d 41c83b0e a20bc7c6 6d5451fd
//   243f6a88 85a308d3 13198a2e 03707344; a4093822 299f31d0
//     -> d16cfe09 94fdcceb 5001e420 24126ea1

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0; round < 10; ++round) {
        uint high_0, low_0, high_1, low_1;
        umulExtended(0xD2511F53u, counter.x, high_0, low_0);
        umulExtended(0xCD9E8D57u, counter.z, high_1, low_1);
        counter = uvec4(
            high_1 ^ counter.y ^ key.x, low_1, high_0 ^ counter.w ^ key.y, low_0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

// The upper 24 bits as a multiple of 2^-24 in [0, 1): every value is exact.
vec4 unit_interval(uvec4 bits) {
    return vec4(bits >> 8) * (1.0 / 16777216.0);
}

// Four draws of a call: block number `block` of the stream that key and call name.
vec4 random_uniform(uint block, uvec2 key, uvec2 call) {
    return unit_interval(philox(uvec4(block, call, 0u), key));
}
