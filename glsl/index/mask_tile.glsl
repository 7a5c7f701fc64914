// Tiles of a mask: which elements of an invocation's share are true, and prefix sums
//
// A tile is MASK_ELEMENTS elements for each invocation of a workgroup. With RUNS an element
// is true that differs from the one before it, as the first does; include lib/dtype.glsl
// before then.

#ifdef RUNS
#define MASK In
#else
#define MASK IntIn
#endif

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
#ifdef RUNS
// Those of four elements each, in order: neighbours read neighbours.
shared uint quads[4 * gl_WorkGroupSize.x];

uint bits_of(In x, uint first, uint count) {
    uint at = gl_LocalInvocationIndex, start = first - at * MASK_ELEMENTS;
    for (uint k = 0; k < 4; ++k) {
        uint quad = k * gl_WorkGroupSize.x + at, element = start + 4 * quad, bits = 0;
        if (element < count) {
            ACC before = load(x, max(element, 1u) - 1);
            [[unroll]] for (uint lane = 0; lane < 4; ++lane) {
                ACC value = load(x, min(element + lane, count - 1));
                bool differs = element + lane == 0 || value != before;
                if (element + lane < count && differs) bits |= 1u << lane;
                before = value;
            }
        }
        quads[quad] = bits;
    }
    barrier();
    uint found = 0;
    for (uint k = 0; k < 4; ++k) found |= quads[4 * at + k] << 4 * k;
    return found;
}
#else
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
#endif
