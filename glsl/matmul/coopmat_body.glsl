// Main loop and store of the GEMMs on tensor cores, for the includer's loads:
// coopmat_aligned.glsl, coopmat_unaligned.glsl or coopmat_decoded.glsl

void main() {
    uint rows = push.m;
    uint columns = push.n;
    uvec2 tile_at = gl_WorkGroupID.yx;
    uint part = GRID_MAPPED == 2 ? gl_WorkGroupID.z : 0;
    uint batch = GRID_MAPPED == 3 ? gl_WorkGroupID.z : 0;
    if (GRID_MAPPED == 0) {
        uint across = (columns - 1) / BLOCK_N + 1;
        tile_at = uvec2(linear_workgroup() / across, linear_workgroup() % across);
        part = gl_WorkGroupID.z / push.batches;
        batch = gl_WorkGroupID.z % push.batches;
    }
    uint first_row = tile_at.x * BLOCK_M;
    uint matrix = batch;
#ifdef GROUPS_OF_ROWS
    CHECK_OFFSETS(push.offsets, push.groups, rows, push.error)
    Group group = group_of_tile(push.offsets, push.groups, rows, tile_at.x, BLOCK_M);
    first_row = group.first + group.tile * BLOCK_M;
    if (first_row >= group.end) return;
    // Rows of other groups, which a tile may have too, are not stored.
    stored_rows = uvec2(first_row, group.end);
    matrix = min(group.number, push.groups - 1);
#else
    if (GRID_MAPPED == 0 && first_row >= rows) return;
#endif
    // The last tiles move back over their neighbours and write the same values again,
    // so that no load needs a bound; operands with less than a tile are padded.
    first_row = min(first_row, push.last_row);
    uint first_column = min(tile_at.y * BLOCK_N, push.last_column);
    load_exponents(first_row, first_column, batch);
    uint depth = DEPTH != 0 ? DEPTH : push.k;
    uint from_k = part * depth;
#ifdef IMPLICIT_GEMM
    uvec2 outside = planes_outside(first_column, BLOCK_N, BLOCK_K);
    outside.x += leading_zeros(first_row, BLOCK_M, BLOCK_K);
    from_k += outside.x;
    depth -= outside.x + outside.y;
#endif
    // The K tail comes first: missing elements are in front, masked in the first loads
    // and in no others.
    uint missing = K_TAIL != 0 ? BLOCK_K - 1 - (push.total - 1) % BLOCK_K : 0;
#ifdef GROUPS_OF_K
    CHECK_OFFSETS(push.offsets, push.groups, push.total, push.error)
    uint k_first = group_first(push.offsets, batch, push.total);
    uint k_count = max(group_end(push.offsets, batch, push.total), k_first) - k_first;
    missing = k_count == 0 ? BLOCK_K : BLOCK_K - 1 - (k_count - 1) % BLOCK_K;
#endif
    uint a_stride = A_STRIDE != 0 ? A_STRIDE : push.a_stride;
    uint b_stride = B_STRIDE != 0 ? B_STRIDE : push.b_stride;
    uint skipped = part == 0 ? missing : 0;

    uint thread = gl_LocalInvocationIndex;
    uint a_line = thread / A_VECTORS;
    uint b_line = thread / B_VECTORS;
    uint a_vector = thread % A_VECTORS;
    uint b_vector = thread % B_VECTORS;
    Vectors a = push.a;
    Right b = push.b;
    uint a_from = batch * push.a_batch + a_line * a_stride + a_vector * (WIDTH / UNIT);
    uint b_from = matrix * push.b_batch + b_line * b_stride + b_vector * (WIDTH / UNIT);
    uint start = from_k - missing;
#ifdef GROUPS_OF_K
    start = k_first - missing;
#endif
    uint along = from_k / UNIT - missing / UNIT;
    a_from += A_ALONG_K != 0 ? first_row * a_stride + along
                             : start * a_stride + first_row / UNIT;
    b_from += B_ALONG_K != 0 ? first_column * b_stride + along
                             : start * b_stride + first_column / UNIT;
    uint a_next = A_ALONG_K != 0 ? A_VECTORS : BLOCK_K / (WIDTH / UNIT) * a_stride;
    uint b_next = B_ALONG_K != 0 ? B_VECTORS : BLOCK_K / (WIDTH / UNIT) * b_stride;
    uint a_step = THREADS / A_VECTORS / (WIDTH / UNIT) * a_stride;
    uint b_step = THREADS / B_VECTORS / (WIDTH / UNIT) * b_stride;
    ALIGN_OPERANDS()
    uint a_to = a_line * A_PITCH + a_vector;
    uint b_to = B_START + b_line * B_PITCH + b_vector;
#ifdef IMPLICIT_GEMM
    const uint LINES_APART = THREADS / B_VECTORS;
    uint bundle = bundle_offset(first_row);
    uint own_tap = bundle + tap_vector_offset(first_column / WIDTH + b_vector);
    uint own_window[B_LOADS];
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i)
        own_window[i] =
            bundle + window_offset(first_column + b_line + i * LINES_APART);
    if (B_ALONG_K == 0 && thread < BLOCK_K)
        places[thread] = window_offset(from_k + thread);
    barrier();
#define B_AT(tile, i)                                                                  \
    (B_ALONG_K != 0                                                                    \
            ? own_window[i] + tap_vector_offset((from_k + (tile) * BLOCK_K) / WIDTH + b_vector) \
            : own_tap + places[b_line + (i) * LINES_APART])
#else
#define B_AT(tile, i) (b_from + (tile) * b_next + (i) * b_step)
#endif

#ifndef STORE_LEFT
#define STORE_LEFT(stage)                                                              \
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                      \
        tiles[stage + a_to + i * (THREADS / A_VECTORS) * A_PITCH] = FETCHED(a, i);
#endif
#ifndef STORE_RIGHT
#define STORE_RIGHT(stage)                                                             \
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i)                                      \
        tiles[stage + b_to + i * (THREADS / B_VECTORS) * B_PITCH] = FETCHED(b, i);
#endif
    // Loaded registers go to a stage of shared memory, and the next step is loaded.
#define STORE_STAGE(stage)                                                             \
    {                                                                                  \
        STORE_LEFT(stage)                                                              \
        STORE_RIGHT(stage)                                                             \
    }
    // The first step of a group may begin before its first line: only the first loads are
    // masked.
#ifdef GROUPS_OF_K
#define PREFETCH_STEP(tile)                                                            \
    if (count > 1) PREFETCH_NEXT(tile)
#else
#define PREFETCH_STEP(tile) PREFETCH_NEXT(tile)
#endif
    // With two stages a step is stored while the one before is multiplied.
    const uint STORE_AHEAD = PIPELINE_STAGES - 1;
    const uint PREFETCH_DISTANCE = STORE_AHEAD + STEPS_IN_REGISTERS;

    uint sub_row = subgroup / ACROSS_N * SUB_M;
    uint sub_column = subgroup % ACROSS_N * SUB_N;
    C_FRAGMENT sum[FRAGMENTS_M][FRAGMENTS_N];
    [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
        [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)
            sum[i][j] = NO_SUMS;

    // K index, within its step, of the first element of a vector.
#define A_FIRST(i) (A_ALONG_K != 0 ? a_vector * WIDTH : a_line + i * (THREADS / A_VECTORS))
#define B_FIRST(i) (B_ALONG_K != 0 ? b_vector * WIDTH : b_line + i * (THREADS / B_VECTORS))
    uint own = UNEVEN_SPLITS != 0 ? min(depth, push.total + missing - from_k) : depth;
#ifdef GROUPS_OF_K
    own = k_count + missing;
#endif
    uint count = own / BLOCK_K;
    REGISTERS
    READ_FIRST_STEP()
    PREFETCH_L2()
    if (PIPELINE_STAGES == 2) {
        STORE_STAGE(0)
        PREFETCH_STEP(min(PREFETCH_DISTANCE - 1, count - 1))
    }
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        barrier();
        STORE_STAGE((tile + STORE_AHEAD) % PIPELINE_STAGES * TILES)
        // The last tile is prefetched once more, which is cheaper than a branch.
        uint ahead = min(tile + PREFETCH_DISTANCE, count - 1);
#ifdef IMPLICIT_GEMM
        if (B_ALONG_K == 0 && thread < BLOCK_K)
            places[thread] = window_offset(from_k + ahead * BLOCK_K + thread);
#endif
        if (PIPELINE_STAGES == 1) barrier();
        PREFETCH_STEP(ahead)
        uint stage = tile % PIPELINE_STAGES * TILES;
        [[unroll]] for (uint k = 0; k < BLOCK_K; k += EDGE_K) {
            A_FRAGMENT left[FRAGMENTS_M];
            [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                left[i] = fragment_a(stage, sub_row + i * EDGE, k);
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) {
                B_FRAGMENT right = fragment_b(stage, k, sub_column + j * EDGE);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
            }
        }
    }

#ifdef GROUPS_OF_ROWS
    // What follows the last group has no matrix.
    if (group.number == push.groups)
        [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) sum[i][j] = NO_SUMS;
#endif
    uint out_row = first_row + sub_row;
    uint out_column = first_column + sub_column;
    // The fragment layout is opaque, so elements are addressed in memory only. Storing
    // fragments straight to `out_` is not faster (H200: 70 against 67 TFLOP/s at one
    // clock).
    barrier();
    uint strip = subgroup * STRIP;
#define STORE_FRAGMENTS(i)                                                             \
    [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)                                  \
        coopMatStore(stored(sum[i][j]), tiles,                                         \
            strip + j * (EDGE * STORED_BYTES / 16), STRIP_PITCH, BY_ROWS);
#ifdef EPILOGUE
    // The epilogue's code is there once. Repeated for each row of fragments, a long one
    // keeps the loop from being unrolled, and fragments indexed by a variable lie in local
    // memory: products with an error function took 11 times as long (NVIDIA H100, driver
    // 580.159.04, 2026-11-24).
    [[dont_unroll]] for (uint row = 0; row < FRAGMENTS_M; ++row) {
        [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
            if (i == row) STORE_FRAGMENTS(i)
#else
    [[unroll]] for (uint row = 0; row < FRAGMENTS_M; ++row) {
        STORE_FRAGMENTS(row)
#endif
        STRIP_BARRIER();
        store_strip(strip, out_row + row * EDGE, out_column);
        STRIP_BARRIER();
    }
}
