// Tiles in shared memory and fragments of the GEMMs on tensor cores, and their consts

layout(constant_id = 3) const uint BLOCK_M = 128;
layout(constant_id = 4) const uint BLOCK_N = 128;
layout(constant_id = 5) const uint BLOCK_K = 64;
layout(constant_id = 6) const uint SUB_M = 64;
layout(constant_id = 7) const uint SUB_N = 64;
layout(constant_id = 8) const uint SUBGROUP = 32;
layout(constant_id = 9) const uint A_ALONG_K = 1;
layout(constant_id = 10) const uint B_ALONG_K = 0;
layout(constant_id = 11) const uint DEPTH = 0;
layout(constant_id = 12) const uint A_STRIDE = 0;
layout(constant_id = 13) const uint B_STRIDE = 0;
layout(constant_id = 14) const uint UNEVEN_SPLITS = 0;
layout(constant_id = 16) const uint K_TAIL = 0;
#ifdef IMPLICIT_GEMM
const uint PIPELINE_STAGES = 1;
const uint GRID_MAPPED = 0;
#else
layout(constant_id = 19) const uint PIPELINE_STAGES = 1;
layout(constant_id = 20) const uint GRID_MAPPED = 0;
#endif

const uint EDGE = 16;  // of a fragment, whose K is EDGE_K
#if DTYPE == DTYPE_INT8
layout(constant_id = 15) const uint EDGE_K = 32;
const uint WIDTH = 16;  // elements of a vector
#else
const uint EDGE_K = EDGE;
const uint WIDTH = 8;
#endif
const uint ACROSS_M = BLOCK_M / SUB_M;
const uint ACROSS_N = BLOCK_N / SUB_N;
const uint THREADS = ACROSS_M * ACROSS_N * SUBGROUP;
const uint FRAGMENTS_M = SUB_M / EDGE;
const uint FRAGMENTS_N = SUB_N / EDGE;

// Tiles have the layout of global memory: lines of vectors along the operand's
// contiguous dimension. A vector of padding avoids bank conflicts between lines.
const uint A_LINES = A_ALONG_K != 0 ? BLOCK_M : BLOCK_K;
const uint B_LINES = B_ALONG_K != 0 ? BLOCK_N : BLOCK_K;
const uint A_VECTORS = (A_ALONG_K != 0 ? BLOCK_K : BLOCK_M) / WIDTH;
const uint B_VECTORS = (B_ALONG_K != 0 ? BLOCK_K : BLOCK_N) / WIDTH;
const uint A_PITCH = A_VECTORS + 1;
const uint B_PITCH = B_VECTORS + 1;
const uint A_LOADS = A_LINES * A_VECTORS / THREADS;
const uint B_LOADS = B_LINES * B_VECTORS / THREADS;
const uint B_START = A_LINES * A_PITCH;

// The epilogue store aliases it: each subgroup passes strips of its accumulators
// through.
const uint STRIP_PITCH = SUB_N * STORED_BYTES / 16 + 1;
const uint STRIP = EDGE * STRIP_PITCH;
const uint STRIPS = ACROSS_M * ACROSS_N * STRIP;
const uint TILES = B_START + B_LINES * B_PITCH;
shared uvec4 tiles[PIPELINE_STAGES * TILES > STRIPS ? PIPELINE_STAGES * TILES : STRIPS];

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };

#if defined(GROUPS_OF_ROWS) || defined(GROUPS_OF_K)
#define GROUPED
#include "matmul/group.glsl"
#include "lib/index_record.glsl"
#endif
#ifdef SCALED
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Exponents { int at[]; };
#endif
#include "matmul/arguments.glsl"
#include "matmul/result_address.glsl"
#ifdef IMPLICIT_GEMM
shared uint places[BLOCK_K];  // of the lines of B loaded next, if lines are its K
#endif

#ifdef EMULATED
#include "lib/coopmat_emulation.glsl"
#else
#include "matmul/coopmat_fragments.glsl"
#endif

A_FRAGMENT fragment_a(uint stage, uint m, uint k) {
    A_FRAGMENT fragment;
    if (A_ALONG_K != 0)
        coopMatLoad(fragment, tiles, stage + m * A_PITCH + k / WIDTH, A_PITCH, BY_ROWS);
    else
        coopMatLoad(
            fragment, tiles, stage + k * A_PITCH + m / WIDTH, A_PITCH, BY_COLUMNS);
    return fragment;
}

B_FRAGMENT fragment_b(uint stage, uint k, uint n) {
    B_FRAGMENT fragment;
    uint at = stage + B_START
        + (B_ALONG_K != 0 ? n * B_PITCH + k / WIDTH : k * B_PITCH + n / WIDTH);
    if (B_ALONG_K != 0)
        coopMatLoad(fragment, tiles, at, B_PITCH, BY_COLUMNS);
    else
        coopMatLoad(fragment, tiles, at, B_PITCH, BY_ROWS);
    return fragment;
}

#include "matmul/scaled_results.glsl"
#include "matmul/store_strips.glsl"
