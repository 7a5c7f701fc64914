// Main loop and store of the SIMT GEMMs with large tiles, for the includer's loads:
// simt_aligned.glsl or simt_unaligned.glsl

void main() {
    uint rows = push.m;
    uint columns = push.n;
    uvec2 tile = gl_WorkGroupID.yx;
    uint part = GRID_MAPPED == 2 ? gl_WorkGroupID.z : 0;
    uint batch = GRID_MAPPED == 3 ? gl_WorkGroupID.z : 0;
    if (GRID_MAPPED == 0) {
        uint across = (columns - 1) / BLOCK_N + 1;
        uint down = (rows - 1) / BLOCK_M + 1;
        // Column by column in strips of rows: concurrent workgroups share operands in
        // L2.
        uint strip = linear_workgroup() / (across * STRIP) * STRIP;
        if (strip >= down) return;
        uint high = min(STRIP, down - strip);
        uint number = linear_workgroup() % (across * STRIP);
        if (number >= across * high) return;
        tile = uvec2(strip + number % high, number / high);
        part = gl_WorkGroupID.z / push.batches;
        batch = gl_WorkGroupID.z % push.batches;
    }
    // As in matmul/gemm_coopmat.comp, so that no load needs a bound.
    uint first_row = min(tile.x * BLOCK_M, push.last_row);
    uint first_column = min(tile.y * BLOCK_N, push.last_column);
    uint depth = DEPTH != 0 ? DEPTH : push.k;
    uint from_k = part * depth;
#ifdef IMPLICIT_GEMM
    uvec2 outside = planes_outside(first_column, BLOCK_N, 2 * K_SLICES * BLOCK_K);
    outside.x += leading_zeros(first_row, BLOCK_M, 2 * K_SLICES * BLOCK_K);
    from_k += outside.x;
    depth -= outside.x + outside.y;
#endif
    uint a_stride = A_STRIDE != 0 ? A_STRIDE : push.a_stride;
    uint b_stride = B_STRIDE != 0 ? B_STRIDE : push.b_stride;
    // The K tail comes first: missing elements are in front, masked in the first two of
    // all steps and in no others.
    const uint PAIR = 2 * BLOCK_K;
    uint missing = K_TAIL != 0 ? PAIR - 1 - (push.total - 1) % PAIR : 0;
    uint skipped = part == 0 ? missing : 0;
    uint start = from_k - missing;
    uint along = from_k / UNIT - missing / UNIT;

    // Lanes of a subgroup of 32 lie 8 wide and 4 high: few vectors serve all. Next to
    // each is one that reads the same on the left or on the right, which is quicker.
    uint slice = gl_LocalInvocationIndex / THREADS;
    uint self = gl_LocalInvocationIndex % THREADS;
    uint lane = self % 32;
    uint group = self / 32;
    uint x = group % (ACROSS_N / 8) * 8 + lane / 2 % 8;
    uint y = group / (ACROSS_N / 8) * 4 + lane / 16 * 2 + lane % 2;

    uvec2 a_at = A_PLACE;
#ifdef SUMMED
    uint a_from = (a_at.x + first_row) * a_stride;
#else
    uint a_from = batch * push.a_batch + a_at.x * a_stride + a_at.y
        + (A_ALONG_K != 0 ? first_row * a_stride + along
                          : start * a_stride + first_row / UNIT);
#endif
    uvec2 b_at = B_PLACE;
#ifdef SIDE_BY_SIDE
    uint b_from = (b_at.x + start) * b_stride
        + offset_among(first_column / WIDTH + b_at.y, push.b_batch);
#elif defined(SUMMED)
    uint b_from = (b_at.x + first_column) * b_stride;
#else
    uint b_from = batch * push.b_batch + b_at.x * b_stride + b_at.y
        + (B_ALONG_K != 0 ? first_column * b_stride + along
                          : start * b_stride + first_column / UNIT);
#endif
    uint a_next = A_ALONG_K != 0 ? BLOCK_K / UNIT : BLOCK_K * a_stride;
    uint b_next = B_ALONG_K != 0 ? BLOCK_K / UNIT : BLOCK_K * b_stride;
#ifdef IMPLICIT_GEMM
    uint own_tap[B_LOADS], own_window[B_LOADS], bundle = bundle_offset(first_row);
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {
        uvec2 from = place(i, B_ALONG_K, BLOCK_N);
        own_tap[i] = bundle + tap_vector_offset(first_column / WIDTH + from.y);
        own_window[i] = bundle + window_offset(first_column + from.x);
    }
#define B_AT(tile, i)                                                                  \
    (B_ALONG_K != 0 ? own_window[i]                                                     \
                + tap_vector_offset((from_k + (tile) * BLOCK_K) / WIDTH                     \
                    + place(i, B_ALONG_K, BLOCK_N).y)                                  \
                    : own_tap[i]                                                       \
                + window_offset(from_k + (tile) * BLOCK_K + place(i, B_ALONG_K, BLOCK_N).x))
#elif defined(SUMMED)
#define A_STEP(step)                                                                   \
    offset_among(along + (step) * (BLOCK_K / WIDTH) + a_at.y, push.a_batch)
#define B_AT(step, i)                                                                  \
    (b_from + (i) * B_LINES * b_stride                                                 \
     + offset_among(along + (step) * (BLOCK_K / WIDTH) + b_at.y, push.b_batch))
#else
#define B_AT(tile, i) (b_from + (i) * B_LINES * b_stride + (tile) * b_next)
#endif
#ifndef A_STEP
#define A_STEP(step) ((step) * a_next)
#endif

    VECTOR sum[ROWS][QUADS_N];
    [[unroll]] for (uint i = 0; i < ROWS; ++i)
        [[unroll]] for (uint j = 0; j < QUADS_N; ++j) sum[i][j] = VECTOR(0);
    VECTOR next_a[PREFETCH_DISTANCE][A_LOADS], next_b[PREFETCH_DISTANCE][B_LOADS];
    VECTOR left[2][QUADS_M], right[2][QUADS_N];
    uint own = UNEVEN_SPLITS != 0 ? min(depth, push.total - start) : depth;
    uint steps = own / BLOCK_K;
    uint count = ((steps - 1) / (2 * K_SLICES) + 1) * 2;  // of a slice
    FETCH(0, 0, true)
    STORE_STAGE(0)
    barrier();
    FETCH(1, 1, K_SLICES == 1)
    if (PREFETCH_DISTANCE == 2) FETCH(0, min(2, count - 1), false)
    READ(0, 0)
    for (uint pair = 0; pair < count; pair += 2) {
        [[unroll]] for (uint stage = 0; stage < 2; ++stage) {
            [[unroll]] for (uint k = 0; k < BLOCK_K; ++k) {
                if (k == BLOCK_K - 1) {
                    STORE_STAGE(stage ^ 1)
                    barrier();
                    FETCH(stage ^ 1, min(pair + stage + 1 + PREFETCH_DISTANCE, count - 1), false)
                    READ(stage ^ 1, 0)
                } else {
                    READ(stage, k + 1)
                }
                // Serpentine order, so that each shares an operand with the one before.
                [[unroll]] for (uint i = 0; i < ROWS; ++i)
                    [[unroll]] for (uint step = 0; step < COLUMNS; ++step) {
                        uint j = i % 2 == 0 ? step : COLUMNS - 1 - step;
                        sum[i][j / 4][j % 4] = MULTIPLY_ADD(
                            left[k % 2][i / 4][i % 4], right[k % 2][j / 4][j % 4],
                            sum[i][j / 4][j % 4]);
                    }
            }
        }
    }

    if (K_SLICES > 1) {
        // The first slice adds the others' accumulators, four rows at a time.
        const uint PASSED = 4 * QUADS_N * THREADS;
        [[unroll]] for (uint quad = 0; quad < QUADS_M; ++quad) {
            barrier();
            [[unroll]] for (uint i = 0; i < 4 * QUADS_N; ++i)
                if (slice != 0)
                    tiles[(slice - 1) * PASSED + i * THREADS + self] =
                        sum[4 * quad + i / QUADS_N][i % QUADS_N];
            barrier();
            [[unroll]] for (uint other = 0; other + 1 < K_SLICES; ++other)
                [[unroll]] for (uint i = 0; i < 4 * QUADS_N; ++i)
                    sum[4 * quad + i / QUADS_N][i % QUADS_N] +=
                        tiles[other * PASSED + i * THREADS + self];
        }
    }
    if (PASSES) {
        // Neighbours store neighbours: each invocation's sums are apart, and stored one by
        // one would each be a write of 32 bytes. A row of each at a time.
        const uint PASSED = QUADS_N * THREADS;
#ifdef IMPLICIT_GEMM
        // Mostly an invocation has one column, whose place is computed once.
        uvec3 first = first_of(first_column + self % BLOCK_N);
#endif
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            uint pass = i % 2 * PASSED;
            if (i == 0) barrier();
            [[unroll]] for (uint j = 0; j < QUADS_N; ++j) {
#ifdef BIAS
                uint row = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
                sum[i][j] += bias_of(min(row, rows - 1));
#endif
                tiles[pass + y * (BLOCK_N / 4) + j * ACROSS_N + x] = sum[i][j];
            }
            barrier();
            [[unroll]] for (uint e = 0; e < COLUMNS; ++e) {
                uint at = self + e * THREADS;
                uint row = first_row + 4 * (i / 4 * ACROSS_M + at / BLOCK_N) + i % 4;
                uint column = first_column + at % BLOCK_N;
#ifdef IMPLICIT_GEMM
                if (THREADS % BLOCK_N != 0) first = first_of(column);
                if (column < push.n && is_inside(first, row))
                    store(push.out_, at_row(first, row), tiles[pass + at / 4][at % 4]);
#else
                if (is_result(row, column))
                    store(push.out_, result_at(row, column), tiles[pass + at / 4][at % 4]);
#endif
            }
        }
    } else if (K_SLICES == 1 || slice == 0) {
#ifdef EPILOGUE
        // The epilogue's code is there once, and sums are indexed by constants: see
        // coopmat_body.glsl.
        [[dont_unroll]] for (uint line = 0; line < ROWS; ++line) {
            vec4 results[QUADS_N];
            [[unroll]] for (uint i = 0; i < ROWS; ++i)
                [[unroll]] for (uint j = 0; j < QUADS_N; ++j)
                    if (i == line) results[j] = sum[i][j];
            uint row = first_row + 4 * (line / 4 * ACROSS_M + y) + line % 4;
            [[unroll]] for (uint j = 0; j < QUADS_N; ++j) {
                uint column = first_column + 4 * (j * ACROSS_N + x);
#ifdef BIAS
                results[j] += bias_of(min(row, rows - 1));
#endif
                if (is_result(row, column))
                    epilogue(push.epilogue, result_at(row, column) / 4, results[j]);
            }
        }
#else
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            uint row = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
            [[unroll]] for (uint j = 0; j < QUADS_N; ++j) {
                uint column = first_column + 4 * (j * ACROSS_N + x);
#ifdef BIAS
                sum[i][j] += bias_of(min(row, rows - 1));
#endif
                if (DIRECT_STORE != 0) {
                    OutVectors(push.out_).at[result_at(row, column) / 4] = sum[i][j];
                } else {
                    [[unroll]] for (uint e = 0; e < 4; ++e)
                        if (is_result(row, column + e))
                            store(push.out_, result_at(row, column + e), sum[i][j][e]);
                }
            }
        }
#endif
    }
}
