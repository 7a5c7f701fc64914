// Tiles of a mask: which elements of an invocation's share are true, and prefix sums
//
// A tile is MASK_ELEMENTS elements for each invocation of a workgroup.

const uint MASK_ELEMENTS = 16;
const uint TILE = MASK_ELEMENTS * gl_WorkGroupSize.x;

// Sums up to each invocation, scanned after Hillis and Steele.
shared uint sums[2][gl_WorkGroupSize.x];

// How much comes before this invocation, and all of the workgroup.
uvec2 scan(uint own) {
    uint at = gl_LocalInvocationIndex, now = 0;
    sums[0][at] = own;
    barrier();
    for (uint apart = 1; apart < gl_WorkGroupSize.x; apart *= 2) {
        sums[1 - now][at] = sums[now][at] + (at >= apart ? sums[now][at - apart] : 0u);
        now = 1 - now;
        barrier();
    }
    return uvec2(sums[now][at] - own, sums[now][gl_WorkGroupSize.x - 1]);
}

// Which of the 16 elements from `first` on are true, as bits.
uint bits_of(IntIn mask, uint first, uint count) {
    uint found = 0;
    for (uint k = 0; k < 4; ++k) {
        uint element = first + 4 * k;
        if (element >= count) break;
        uint word = uint(mask.at[element / 4]);
        for (uint lane = 0; lane < 4; ++lane) {
            bool holds = element + lane < count && (word >> 8 * lane & 0xffu) != 0;
            found |= holds ? 1u << (4 * k + lane) : 0u;
        }
    }
    return found;
}
