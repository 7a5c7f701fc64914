// Skinny GEMM on tensor cores, whose right operand lies along K: x (rows, k) times the
// transpose of (columns, k), which may be quantized
// grid    linear in tiles of COLUMNS, with SPLIT each SPLITS times
// in      x: 16-bit floats in vectors of 8, x_line vectors apart; b (columns, k), such
//         vectors, or with FORMAT blocks of row_size bytes; bias (columns), with
//         HAS_BIAS; chunks: k / STEP; table: see quantized/format.glsl
// out     out_ (rows, columns), DTYPE, unless an epilogue takes them; sums are float32
// consts  ROWS: a multiple of 16, at least `rows`; COLUMNS: a multiple of 32; SUBGROUP;
//         STEP: K of a chunk, a multiple of 32; HAS_BIAS; GROUP of int4. EMULATED: tests
//         without tensor cores
// macros  SPLIT: SPLITS workgroups share the K of a tile, and the last to finish adds up
//         what they leave in `partial` (tiles, SPLITS, ROWS, COLUMNS); `finished` has a
//         counter for each tile;
//         GATED: a tile has COLUMNS / 2 columns of `gate`, and as many of b; results are
//         f(g) * u, f by GATE; without a bias
// source  -
//
// Subgroups take chunks of K in turn, pass both operands of theirs through shared memory
// of their own, and wait for each other once, to add up their sums. K is in the order of
// the pieces of a format, which x follows.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/dtype.glsl"
#include "lib/horizontal.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/coopmat_types.glsl"
#ifdef FORMAT
#include "quantized/format.glsl"
#include "quantized/vectors.glsl"
#else
#include "quantized/floats.glsl"
#endif

layout(constant_id = 3) const uint ROWS = 32;
layout(constant_id = 4) const uint COLUMNS = 64;
layout(constant_id = 5) const uint STEP = 32;
layout(constant_id = 6) const uint HAS_BIAS = 0;
layout(constant_id = 8) const uint SUBGROUP = 32;
#ifdef SPLIT
layout(constant_id = 9) const uint SPLITS = 2;
#else
const uint SPLITS = 1;
#endif
#ifdef GATED
layout(constant_id = 10) const uint GATE = 0;
#include "matmul/gate.glsl"
#define OUTPUTS (COLUMNS / 2)
#else
#define OUTPUTS COLUMNS
#endif

const uint EDGE = 16, EDGE_K = 16;
const uint THREADS = gl_WorkGroupSize.x;
const uint SUBGROUPS = THREADS / SUBGROUP;
const uint FRAGMENTS_M = ROWS / EDGE, FRAGMENTS_N = COLUMNS / EDGE;

// A line has a chunk of a row or column, and a vector of padding against bank conflicts.
const uint VECTORS = STEP / 8;
const uint PITCH = VECTORS + 1;
const uint X_LOADS = ROWS * VECTORS / SUBGROUP;
const uint LINE_PIECES = STEP / PIECE;
const uint PIECE_VECTORS = PIECE / 8;
const uint PIECES = COLUMNS * LINE_PIECES / SUBGROUP;
const uint B_START = ROWS * PITCH;
const uint STAGE = B_START + COLUMNS * PITCH;

// Sums of EDGE rows of each subgroup take its place.
const uint STRIP_PITCH = COLUMNS / 4 + 1;
const uint STRIP = EDGE * STRIP_PITCH;
shared uvec4 tiles[SUBGROUPS * (STAGE > STRIP ? STAGE : STRIP)];

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };
#ifdef SPLIT
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partial {
    vec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Finished {
    uint at[];
};
shared bool is_last;
#endif

BEGIN_ARGUMENTS
    Vectors x;
    Blocks b;
#ifdef GATED
    Blocks gate;
#endif
#ifdef SPLIT
    Partial partial;
    Finished finished;
#endif
    Out out_;
    In bias;
    uint rows;
    uint columns;
    uint x_line;
    uint row_size;
    uint chunks;
    uint table;
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
END_ARGUMENTS

#ifdef EMULATED
#include "lib/coopmat_emulation.glsl"
#else
#include "matmul/coopmat_fragments.glsl"
#endif

// Sum of the subgroups, four columns from 4 * place on.
vec4 strip_sums(uint line, uint place) {
    vec4 sums = vec4(0);
    [[unroll]] for (uint s = 0; s < SUBGROUPS; ++s)
        sums += uintBitsToFloat(tiles[s * STRIP + line * STRIP_PITCH + place]);
    return sums;
}

void store_sums(uint row, uint column, vec4 sums) {
    if (HAS_BIAS != 0)
        [[unroll]] for (uint e = 0; e < 4; ++e)
            sums[e] += load(push.bias, min(column + e, push.columns - 1));
    if (row >= push.rows || column >= push.columns) return;
#ifdef EPILOGUE
    epilogue(push.epilogue, (row * push.columns + column) / 4, sums);
#else
    [[unroll]] for (uint e = 0; e < 4; ++e)
        if (column + e < push.columns)
            store(push.out_, row * push.columns + column + e, sums[e]);
#endif
}

void main() {
    READ_ARGUMENTS
    uint tile = OWN_WORKGROUP / SPLITS, split = OWN_WORKGROUP % SPLITS;
    uint first_column = tile * OUTPUTS;
    if (first_column >= push.columns) return;
    Vectors x = push.x;
    Blocks b = push.b;
    uint share = (push.chunks - 1) / SPLITS + 1, begin = split * share;
    uint chunks = min(begin + share, push.chunks), table = push.table;
    uint stage = subgroup * STAGE;

    // Beyond the last row or column is the last one once more, which is not stored.
    uint x_from[X_LOADS], b_from[PIECES];
    uint x_vector = lane % VECTORS;
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i)
        x_from[i] = min((i * SUBGROUP + lane) / VECTORS, push.rows - 1) * push.x_line;
    [[unroll]] for (uint i = 0; i < PIECES; ++i) {
        uint column = first_column + (i * SUBGROUP + lane) / LINE_PIECES % OUTPUTS;
        b_from[i] = min(column, push.columns - 1) * push.row_size;
    }
    uint b_piece = lane % LINE_PIECES;

    uvec4 next_x[X_LOADS];
    Piece next_b[PIECES];
#ifdef GATED
    Blocks gate = push.gate;
#define SOURCE(i) ((i * SUBGROUP + lane) / LINE_PIECES < OUTPUTS ? gate : b)
#else
#define SOURCE(i) b
#endif
#define FETCH(chunk)                                                                   \
    {                                                                                  \
        uint at = vector_place((chunk) * LINE_PIECES + x_vector / PIECE_VECTORS,       \
            x_vector % PIECE_VECTORS);                                                 \
        [[unroll]] for (uint i = 0; i < X_LOADS; ++i) next_x[i] = x.at[x_from[i] + at]; \
        [[unroll]] for (uint i = 0; i < PIECES; ++i)                                   \
            next_b[i] = fetch(                                                         \
                SOURCE(i), b_from[i], (chunk) * LINE_PIECES + b_piece, table);         \
    }

    C_FRAGMENT sum[FRAGMENTS_M][FRAGMENTS_N];
    [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
        [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) sum[i][j] = NO_SUMS;

    uint last = chunks - 1;
    FETCH(min(begin + subgroup, last))
    [[dont_unroll]] for (uint first = begin; first < chunks; first += SUBGROUPS) {
        uint chunk = first + subgroup;
        bool is_own = chunk < chunks;
        [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
            uint line = (i * SUBGROUP + lane) / VECTORS;
            tiles[stage + line * PITCH + x_vector] = is_own ? next_x[i] : uvec4(0);
        }
        [[unroll]] for (uint i = 0; i < PIECES; ++i) {
            uint line = (i * SUBGROUP + lane) / LINE_PIECES;
            uint to = stage + B_START + line * PITCH + b_piece * PIECE_VECTORS;
            [[unroll]] for (uint v = 0; v < PIECE_VECTORS; ++v)
                tiles[to + v] = is_own ? elements(next_b[i], v) : uvec4(0);
        }
        STRIP_BARRIER();
        FETCH(min(chunk + SUBGROUPS, last))
        [[unroll]] for (uint k = 0; k < STEP; k += EDGE_K) {
            A_FRAGMENT left[FRAGMENTS_M];
            [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                coopMatLoad(left[i], tiles, stage + i * EDGE * PITCH + k / 8, PITCH,
                    BY_ROWS);
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) {
                B_FRAGMENT right;
                coopMatLoad(right, tiles, stage + B_START + j * EDGE * PITCH + k / 8,
                    PITCH, BY_COLUMNS);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
            }
        }
        STRIP_BARRIER();
    }

    // An epilogue's code is there once: see matmul/coopmat_body.glsl.
    uint thread = gl_LocalInvocationIndex;
    [[dont_unroll]] for (uint strip = 0; strip < FRAGMENTS_M; ++strip) {
        barrier();
        [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
            if (i == strip)
                [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)
                    coopMatStore(sum[i][j], tiles, subgroup * STRIP + j * (EDGE / 4),
                        STRIP_PITCH, BY_ROWS);
        barrier();
#ifdef SPLIT
        uint from = ((tile * SPLITS + split) * ROWS + strip * EDGE) * (COLUMNS / 4);
        for (uint quad = thread; quad < EDGE * COLUMNS / 4; quad += THREADS)
            push.partial.at[from + quad] =
                strip_sums(quad / (COLUMNS / 4), quad % (COLUMNS / 4));
#else
        for (uint quad = thread; quad < EDGE * OUTPUTS / 4; quad += THREADS) {
            uint line = quad / (OUTPUTS / 4), place = quad % (OUTPUTS / 4);
            vec4 sums = strip_sums(line, place);
#ifdef GATED
            sums = gated(sums) * strip_sums(line, OUTPUTS / 4 + place);
#endif
            store_sums(strip * EDGE + line, first_column + 4 * place, sums);
        }
#endif
    }
#ifdef SPLIT
    memoryBarrierBuffer();
    barrier();
    if (thread == 0) {
        Finished finished = push.finished;
        is_last = atomicAdd(finished.at[tile], 1) + 1 == SPLITS;
        if (is_last) finished.at[tile] = 0;
    }
    barrier();
    if (!is_last) return;
    memoryBarrierBuffer();
    Partial partial = push.partial;
    for (uint quad = thread; quad < ROWS * OUTPUTS / 4; quad += THREADS) {
        uint row = quad / (OUTPUTS / 4), place = quad % (OUTPUTS / 4);
        vec4 sums = vec4(0), others = vec4(0);
        [[unroll]] for (uint s = 0; s < SPLITS; ++s) {
            uint from = ((tile * SPLITS + s) * ROWS + row) * (COLUMNS / 4) + place;
            sums += partial.at[from];
#ifdef GATED
            others += partial.at[from + OUTPUTS / 4];
#endif
        }
#ifdef GATED
        sums = gated(sums) * others;
#endif
        store_sums(row, first_column + 4 * place, sums);
    }
#endif
}
