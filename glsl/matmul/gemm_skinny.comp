// Skinny GEMM on tensor cores, whose right operand lies along K: x (rows, k) times the
// transpose of (columns, k), which may be quantized
// grid    linear in tiles of COLUMNS; with STREAMED in shares of the chunks of K of all
//         tiles, one tile after the other
// in      x: 16-bit floats in vectors of 8, x_line vectors apart; b (columns, k), such
//         vectors, or with FORMAT blocks of row_size bytes; bias (columns), with
//         HAS_BIAS; chunks: k / STEP; table: see quantized/format.glsl
// out     out_ (rows, columns), DTYPE, unless an epilogue takes them; sums are float32
// consts  ROWS: a multiple of 16, at least `rows`; COLUMNS: a multiple of 32; SUBGROUP;
//         STEP: K of a chunk, a multiple of 32; HAS_BIAS; GROUP of int4. EMULATED: tests
//         without tensor cores
// macros  STREAMED: workgroups take `share` chunks each. Of a tile that is in several
//         shares, the last workgroup to finish adds up what they leave in `partial`
//         (workgroups, 2, ROWS, COLUMNS), first and last tile of each; `finished` counts
//         chunks of each tile;
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
#ifdef STREAMED
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
#ifdef STREAMED
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
#ifdef STREAMED
    uint share;
    uint tiles;
#endif
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

#ifdef STREAMED
// Adds up what workgroups have left of a tile, in their order.
void store_tile(uint tile, uint first_column) {
    uint thread = gl_LocalInvocationIndex, from_chunk = tile * push.chunks;
    uint first = from_chunk / push.share;
    uint last = (from_chunk + push.chunks - 1) / push.share;
    Partial partial = push.partial;
    for (uint quad = thread; quad < ROWS * OUTPUTS / 4; quad += THREADS) {
        uint row = quad / (OUTPUTS / 4), place = quad % (OUTPUTS / 4);
        vec4 sums = vec4(0), others = vec4(0);
        for (uint group = first; group <= last; ++group) {
            // The first tile of a share may begin in the one before.
            uint slot = 2 * group + uint(group * push.share < from_chunk);
            uint from = (slot * ROWS + row) * (COLUMNS / 4) + place;
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
}
#endif

void main() {
    READ_ARGUMENTS
    Vectors x = push.x;
    Blocks b = push.b;
    uint table = push.table, stage = subgroup * STAGE;
#ifdef STREAMED
    uint at = OWN_WORKGROUP * push.share;
    uint end = min(at + push.share, push.tiles * push.chunks);
#else
    uint at = OWN_WORKGROUP * push.chunks;
    uint end = OWN_WORKGROUP * OUTPUTS < push.columns ? at + push.chunks : at;
#endif
    if (at >= end) return;
    uint first_at = at;

    // Beyond the last row or column is the last one once more, which is not stored.
    uint x_from[X_LOADS], b_from[PIECES];
    uint x_vector = lane % VECTORS;
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i)
        x_from[i] = min((i * SUBGROUP + lane) / VECTORS, push.rows - 1) * push.x_line;
    uint b_piece = lane % LINE_PIECES;
#define SET_COLUMNS(first_column)                                                      \
    [[unroll]] for (uint i = 0; i < PIECES; ++i) {                                     \
        uint column = first_column + (i * SUBGROUP + lane) / LINE_PIECES % OUTPUTS;    \
        b_from[i] = min(column, push.columns - 1) * push.row_size;                     \
    }

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
        uint place = vector_place((chunk) * LINE_PIECES + x_vector / PIECE_VECTORS,    \
            x_vector % PIECE_VECTORS);                                                 \
        [[unroll]] for (uint i = 0; i < X_LOADS; ++i)                                  \
            next_x[i] = x.at[x_from[i] + place];                                       \
        [[unroll]] for (uint i = 0; i < PIECES; ++i)                                   \
            next_b[i] = fetch(                                                         \
                SOURCE(i), b_from[i], (chunk) * LINE_PIECES + b_piece, table);         \
    }

    uint thread = gl_LocalInvocationIndex;
    uint tile = at / push.chunks, begin = at % push.chunks;
    uint stop = min(push.chunks, begin + end - at);
    SET_COLUMNS(tile * OUTPUTS)
    FETCH(min(begin + subgroup, stop - 1))
    [[dont_unroll]] while (at < end) {
        C_FRAGMENT sum[FRAGMENTS_M][FRAGMENTS_N];
        [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) sum[i][j] = NO_SUMS;

        [[dont_unroll]] for (uint first = begin; first < stop; first += SUBGROUPS) {
            uint chunk = first + subgroup;
            bool is_own = chunk < stop;
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
            FETCH(min(chunk + SUBGROUPS, stop - 1))
            [[unroll]] for (uint k = 0; k < STEP; k += EDGE_K) {
                A_FRAGMENT left[FRAGMENTS_M];
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    coopMatLoad(left[i], tiles, stage + i * EDGE * PITCH + k / 8, PITCH,
                        BY_ROWS);
                [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) {
                    B_FRAGMENT right;
                    coopMatLoad(right, tiles,
                        stage + B_START + j * EDGE * PITCH + k / 8, PITCH, BY_COLUMNS);
                    [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                        sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
                }
            }
            STRIP_BARRIER();
        }

        uint own = tile, first_column = tile * OUTPUTS, taken = stop - begin;
        bool is_whole = taken == push.chunks;
#ifdef STREAMED
        uint slot = 2 * OWN_WORKGROUP + uint(at != first_at);
#endif
        at += taken;
        if (at < end) {
            // The next tile's loads do not wait for the sums of this one.
            ++tile;
            begin = 0;
            stop = min(push.chunks, end - at);
            SET_COLUMNS(tile * OUTPUTS)
            FETCH(min(subgroup, stop - 1))
        }

        // An epilogue's code is there once: see matmul/coopmat_body.glsl.
        [[dont_unroll]] for (uint strip = 0; strip < FRAGMENTS_M; ++strip) {
            barrier();
            [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                if (i == strip)
                    [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)
                        coopMatStore(sum[i][j], tiles,
                            subgroup * STRIP + j * (EDGE / 4), STRIP_PITCH, BY_ROWS);
            barrier();
#ifdef STREAMED
            if (!is_whole) {
                uint from = (slot * ROWS + strip * EDGE) * (COLUMNS / 4);
                for (uint quad = thread; quad < EDGE * COLUMNS / 4; quad += THREADS)
                    push.partial.at[from + quad] =
                        strip_sums(quad / (COLUMNS / 4), quad % (COLUMNS / 4));
                continue;
            }
#endif
            for (uint quad = thread; quad < EDGE * OUTPUTS / 4; quad += THREADS) {
                uint line = quad / (OUTPUTS / 4), place = quad % (OUTPUTS / 4);
                vec4 sums = strip_sums(line, place);
#ifdef GATED
                sums = gated(sums) * strip_sums(line, OUTPUTS / 4 + place);
#endif
                store_sums(strip * EDGE + line, first_column + 4 * place, sums);
            }
        }
#ifdef STREAMED
        if (!is_whole) {
            memoryBarrierBuffer();
            barrier();
            if (thread == 0) {
                Finished finished = push.finished;
                is_last = atomicAdd(finished.at[own], taken) + taken == push.chunks;
                if (is_last) finished.at[own] = 0;
            }
            barrier();
            if (is_last) {
                memoryBarrierBuffer();
                store_tile(own, first_column);
            }
        }
        barrier();
#endif
    }
}
