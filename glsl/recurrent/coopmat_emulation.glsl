// Emulated cooperative matrices of recurrent/coopmat_product.glsl, for tests on devices
// without tensor cores
//
// A fragment of factors is where it lies in memory, of states with PADDED in shared
// memory; 32 invocations have 8 sums each. The includer has `Vectors` and `tiles`.

#define A_FRAGMENT uvec2
#define B_FRAGMENT uvec2
#define C_FRAGMENT float[8]
#define NO_SUMS float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#define BY_ROWS
#define BY_COLUMNS
#define coopMatLoad(fragment, memory, place, pitch, turned) fragment = uvec2(place, pitch)
#define coopMatMulAdd(a, b, sums) multiplied(states, weight, a, b, sums)
#define coopMatStore(sums, memory, place, pitch, turned) store_sums(sums, place, pitch)
#define STRIP_BARRIER() barrier()
uint lane = gl_LocalInvocationIndex % 32;
uint subgroup = gl_LocalInvocationIndex / 32;

// Element k of a line of a fragment
float factor_of(Vectors memory, bool is_shared, uvec2 fragment, uint line, uint k) {
    uint at = fragment.x + line * fragment.y + k / 8;
    uint word = is_shared ? tiles[at][k / 2 % 4] : memory.at[at][k / 2 % 4];
    return DECODE(k % 2 == 0 ? word & 0xffffu : word >> 16);
}

float[8] multiplied(Vectors states, Vectors weight, uvec2 a, uvec2 b, float sums[8]) {
    [[dont_unroll]] for (uint i = 0; i < 8; ++i)
        [[dont_unroll]] for (uint k = 0; k < EDGE_K; ++k)
            sums[i] += factor_of(states, PADDED != 0, a, lane / 2, k)
                * factor_of(weight, false, b, lane % 2 * 8 + i, k);
    return sums;
}

void store_sums(float sums[8], uint place, uint pitch) {
    uint at = place + lane / 2 * pitch + lane % 2 * 2;
    tiles[at] = floatBitsToUint(vec4(sums[0], sums[1], sums[2], sums[3]));
    tiles[at + 1] = floatBitsToUint(vec4(sums[4], sums[5], sums[6], sums[7]));
}
