// Stable ranks by one digit of the elements of a tile, which a workgroup holds
//
// Include GL_KHR_shader_subgroup_ballot, sort/keys.glsl and sort/bins.glsl first.
// Subgroups must be full, and at most SUBGROUPS. Each holds ITEMS * gl_SubgroupSize
// consecutive elements, which its invocations take in turns.
//
//   keys, ranks           of an invocation's elements
//   tile_place(item)      where in the tile an element was
//   rank_tile(shift)      sets ranks; bin_start() is then where a digit starts
//   exchanged             a word of each element, to pass on

layout(constant_id = 3) const uint ITEMS = 4;
layout(constant_id = 4) const uint SUBGROUPS = 8;

const uint TILE = ITEMS * gl_WorkGroupSize.x;

shared uint subgroup_counts[SUBGROUPS * BINS];
shared uint exchanged[TILE];

KEY keys[ITEMS];
uint ranks[ITEMS];

uint tile_place(uint item) {
    return (gl_SubgroupID * ITEMS + item) * gl_SubgroupSize + gl_SubgroupInvocationID;
}

void rank_tile(uint shift) {
    for (uint i = gl_LocalInvocationIndex; i < SUBGROUPS * BINS;
         i += gl_WorkGroupSize.x)
        subgroup_counts[i] = 0;
    barrier();
    uint own = gl_SubgroupID * BINS;
    uvec4 everyone = subgroupBallot(true);
    [[unroll]] for (uint item = 0; item < ITEMS; ++item) {
        uint digit = key_bits(keys[item], shift, DIGIT_BITS);
        uvec4 same = everyone;
        [[unroll]] for (uint bit = 0; bit < DIGIT_BITS; ++bit) {
            bool is_set = (digit >> bit & 1u) != 0u;
            uvec4 votes = subgroupBallot(is_set);
            same &= is_set ? votes : ~votes;
        }
        uint earlier = subgroupBallotExclusiveBitCount(same);
        uint all = subgroupBallotBitCount(same);
        uint counted = subgroup_counts[own + digit];
        subgroupBarrier();
        if (earlier + 1 == all) subgroup_counts[own + digit] = counted + all;
        subgroupBarrier();
        ranks[item] = counted + earlier;
    }
    barrier();
    for (uint bin = gl_LocalInvocationIndex; bin < BINS; bin += gl_WorkGroupSize.x) {
        uint running = 0;
        for (uint i = bin; i < SUBGROUPS * BINS; i += BINS) {
            uint count = subgroup_counts[i];
            subgroup_counts[i] = running;
            running += count;
        }
        bin_sums[0][bin] = running;
    }
    barrier();
    scan_bins();
    [[unroll]] for (uint item = 0; item < ITEMS; ++item) {
        uint digit = key_bits(keys[item], shift, DIGIT_BITS);
        ranks[item] += bin_start(digit) + subgroup_counts[own + digit];
    }
}
