// Flash attention in register tiles, shared body: products of both sides' vectors
//
// A workgroup owns BLOCK vectors of one side, queries or keys, ROWS for each team of
// LANES invocations, and loops over the other side in steps of SPAN, TILE for each
// invocation. Operands pass through two stages of shared memory, SLAB elements or
// vectors deep: while one is multiplied, the loads for the other are in flight. The
// includer first includes lib/dtype.glsl, lib/index.glsl, lib/math/exponential.glsl and
// lib/philox.glsl, and defines OWN_FIELDS, its own fields of the arguments. With QUADS
// vectors of both sides are whole vec4, aligned to four elements.
//
// ROWS, TILE and SLAB are multiples of four, LANES of eight, teams of four, BLOCK of 32;
// SLAB is a power of two.
// lint    scalar-load: without QUADS vectors begin at any element, and the numbers of
//         queries always do

#extension GL_EXT_control_flow_attributes : require

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint VALUE_HEAD = 64;
layout(constant_id = 5) const uint LANES = 16;
layout(constant_id = 6) const uint ROWS = 8;
layout(constant_id = 7) const uint TILE = 8;
layout(constant_id = 8) const uint CAUSAL = 0;
layout(constant_id = 9) const uint HAS_MASK = 0;
layout(constant_id = 10) const uint DROPOUT = 0;
layout(constant_id = 11) const uint SLAB = 8;

const uint THREADS = gl_WorkGroupSize.x;
const uint BLOCK = ROWS * (THREADS / LANES);
const uint SPAN = TILE * LANES;

#define VECTORS In
#include "attention/arguments.glsl"
#include "attention/score.glsl"

#ifdef QUADS
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/vec4_io.glsl"
#endif

// Four rows or columns are one vec4. An invocation has ROW_QUADS rows of the tile by
// COLUMN_QUADS columns, and by RESULT_QUADS columns of a result.
const uint ROW_QUADS = ROWS / 4;
const uint COLUMN_QUADS = TILE / 4;
const uint BLOCK_QUADS = BLOCK / 4;
const uint RESULT_QUADS =
    ((HEAD > VALUE_HEAD ? HEAD : VALUE_HEAD) - 1) / (4 * LANES) + 1;

// Of the tile, each column of the other side is a line of BLOCK_QUADS. Then the stages,
// each with SLAB lines of own vectors and of the other side's; a vec4 of padding avoids
// bank conflicts between the lines.
const uint ACROSS = LANES * (COLUMN_QUADS > RESULT_QUADS ? COLUMN_QUADS : RESULT_QUADS);
const uint OWN_PITCH = BLOCK_QUADS + 1, PITCH = ACROSS + 1;
const uint STAGES_AT = SPAN * BLOCK_QUADS, OTHER_AT = SLAB * OWN_PITCH;
const uint STAGE = OTHER_AT + SLAB * PITCH;
shared vec4 tile[STAGES_AT + 2 * STAGE];
// Two numbers of each own vector.
shared vec4 own_first_numbers[BLOCK_QUADS], own_second_numbers[BLOCK_QUADS];

// Loads of an invocation for a stage: of own vectors and the other side's, transposed,
// and of the other side's as they lie.
const uint DEPTH_QUADS = SLAB / 4;
const uint OWN_LOADS = (BLOCK * DEPTH_QUADS - 1) / THREADS + 1;
const uint OTHER_LOADS = (SPAN * DEPTH_QUADS - 1) / THREADS + 1;
const uint LINE_QUADS = ((HEAD > VALUE_HEAD ? HEAD : VALUE_HEAD) - 1) / 4 + 1;
const uint LINE_LOADS = (SLAB * LINE_QUADS - 1) / THREADS + 1;

// 32 neighbours lie 8 wide and 4 high: few vectors serve all. Next to each is one that
// reads the same on the left or on the right; see matmul/simt_body.glsl.
uint at = gl_LocalInvocationIndex;
uint patch_ = at / 32;
uint lane = patch_ % (LANES / 8) * 8 + at / 2 % 8;
uint team = patch_ / (LANES / 8) * 4 + at / 16 % 2 * 2 + at % 2;

uint row_of(uint i) { return team * ROWS + i; }
uint column_of(uint j) { return (j / 4 * LANES + lane) * 4 + j % 4; }

// Where a quad of rows lies in lines of the tile, of which four neighbours have one
// `quad` number: permuted, so that an invocation's and its neighbours' stores of columns
// do not conflict.
uint swizzled(uint row_quad, uint quad) {
    return row_quad ^ ((quad & 1) | (quad & 2) << 1);
}
uint tile_at(uint j, uint h) {
    return column_of(j) * BLOCK_QUADS + swizzled(team * ROW_QUADS + h, lane);
}

// Four elements of a vector, from the element `e` on; 0 from `depth` on, except where
// they are loaded ahead and never used.
vec4 load_four(In x, uint vector, uint e, uint depth) {
    vec4 found;
#ifdef QUADS
    // By way of two words, for SwiftShader crashes on the direct one.
    found = load_quad(QuadsIn(uvec2(x)), (vector + min(e, depth - 4)) / 4);
    if (depth % SLAB != 0 && e >= depth) found = vec4(0.0);
#else
    [[unroll]] for (uint u = 0; u < 4; ++u) {
        found[u] = load(x, vector + min(e + u, depth - 1));
        if (depth % SLAB != 0 && e + u >= depth) found[u] = 0.0;
    }
#endif
    return found;
}

// Vector and first element of this invocation's i-th load of a transposed stage.
uint turned_vector(uint i) { return (at + i * THREADS) / DEPTH_QUADS; }
uint turned_element() { return at % DEPTH_QUADS * 4; }

// Load this invocation's part of a transposed stage: own vectors and the other side's
// from the element `start` on.
void fetch_turned(
    In own, uint own_at[OWN_LOADS], In other, uint other_at[OTHER_LOADS], uint start,
    uint depth, out vec4 own_next[OWN_LOADS], out vec4 next[OTHER_LOADS]) {
    uint e = start + turned_element();
    [[unroll]] for (uint i = 0; i < OWN_LOADS; ++i)
        own_next[i] = load_four(own, own_at[i], e, depth);
    [[unroll]] for (uint i = 0; i < OTHER_LOADS; ++i)
        next[i] = load_four(other, other_at[i], e, depth);
}

void put_turned(uint stage, vec4 own_next[OWN_LOADS], vec4 next[OTHER_LOADS]) {
    [[unroll]] for (uint i = 0; i < OWN_LOADS; ++i) {
        uint vector = turned_vector(i);
        uint to = stage + turned_element() * OWN_PITCH + vector / 4;
        if (BLOCK * DEPTH_QUADS % THREADS == 0 || vector < BLOCK)
            [[unroll]] for (uint u = 0; u < 4; ++u)
                tile[to + u * OWN_PITCH][vector % 4] = own_next[i][u];
    }
    [[unroll]] for (uint i = 0; i < OTHER_LOADS; ++i) {
        uint vector = turned_vector(i);
        uint to = stage + OTHER_AT + turned_element() * PITCH + vector / 4;
        if (SPAN * DEPTH_QUADS % THREADS == 0 || vector < SPAN)
            [[unroll]] for (uint u = 0; u < 4; ++u)
                tile[to + u * PITCH][vector % 4] = next[i][u];
    }
}

void read_turned(
    uint stage, uint k, out vec4 left[ROW_QUADS], out vec4 right[COLUMN_QUADS]) {
    [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h)
        left[h] = tile[stage + k * OWN_PITCH + team * ROW_QUADS + h];
    [[unroll]] for (uint j = 0; j < COLUMN_QUADS; ++j)
        right[j] = tile[stage + OTHER_AT + k * PITCH + j * LANES + lane];
}

#define CLEAR(sums, QUADS_ACROSS)                                                        \
    [[unroll]] for (uint i_ = 0; i_ < ROWS; ++i_)                                        \
        [[unroll]] for (uint j_ = 0; j_ < QUADS_ACROSS; ++j_) sums[i_][j_] = vec4(0.0);

// sums += left * right; in serpentine order, so that each product shares an operand with
// the one before.
#define MULTIPLY_ADD(sums, QUADS_ACROSS, left, right)                                    \
    [[unroll]] for (uint i_ = 0; i_ < ROWS; ++i_)                                        \
        [[unroll]] for (uint step_ = 0; step_ < 4 * QUADS_ACROSS; ++step_) {             \
            uint j_ = i_ % 2 == 0 ? step_ : 4 * QUADS_ACROSS - 1 - step_;                \
            sums[i_][j_ / 4][j_ % 4] = fma(                                              \
                left[i_ / 4][i_ % 4], right[j_ / 4][j_ % 4], sums[i_][j_ / 4][j_ % 4]);  \
        }

// Dot products of own vectors, from `own_first` on of `own_count`, and those of the
// other side from `first` on, of which there are `count`, `stride` apart.
void multiply(
    In own, uint own_base, uint own_stride, uint own_count, uint own_first, In other,
    uint base, uint stride, uint count, uint first, uint depth,
    out vec4 result[ROWS][COLUMN_QUADS]) {
    CLEAR(result, COLUMN_QUADS)
    uint own_at[OWN_LOADS], other_at[OTHER_LOADS];
    [[unroll]] for (uint i = 0; i < OWN_LOADS; ++i)
        own_at[i] =
            own_base + min(own_first + turned_vector(i), own_count - 1) * own_stride;
    [[unroll]] for (uint i = 0; i < OTHER_LOADS; ++i)
        other_at[i] = base + min(first + turned_vector(i), count - 1) * stride;
    vec4 own_next[OWN_LOADS], next[OTHER_LOADS];
    vec4 left[2][ROW_QUADS], right[2][COLUMN_QUADS];
    uint stage = STAGES_AT;
    fetch_turned(own, own_at, other, other_at, 0, depth, own_next, next);
    barrier();
    put_turned(stage, own_next, next);
    barrier();
    fetch_turned(own, own_at, other, other_at, SLAB, depth, own_next, next);
    read_turned(stage, 0, left[0], right[0]);
    for (uint start = 0; start < depth; start += SLAB) {
        uint later = 2 * STAGES_AT + STAGE - stage;
        [[unroll]] for (uint k = 0; k < SLAB; ++k) {
            const uint now = k % 2, then = now ^ 1;
            if (k + 1 < SLAB) {
                read_turned(stage, k + 1, left[then], right[then]);
            } else if (start + SLAB < depth) {
                put_turned(later, own_next, next);
                barrier();
                fetch_turned(
                    own, own_at, other, other_at, start + 2 * SLAB, depth, own_next, next);
                read_turned(later, 0, left[then], right[then]);
            }
            MULTIPLY_ADD(result, COLUMN_QUADS, left[now], right[now])
        }
        stage = later;
    }
}

// Store this invocation's part of the tile. No other reads it before the next barrier.
void share(vec4 values[ROWS][COLUMN_QUADS]) {
    [[unroll]] for (uint j = 0; j < TILE; ++j)
        [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h)
            tile[tile_at(j, h)] = vec4(
                values[4 * h][j / 4][j % 4], values[4 * h + 1][j / 4][j % 4],
                values[4 * h + 2][j / 4][j % 4], values[4 * h + 3][j / 4][j % 4]);
}

// Load this invocation's part of a stage of the lines from `first` on, before `end`.
void fetch_lines(
    In other, uint base, uint stride, uint first, uint end, uint width,
    out vec4 next[LINE_LOADS]) {
    uint across = (width - 1) / 4 + 1;
    [[unroll]] for (uint i = 0; i < LINE_LOADS; ++i) {
        uint unit = at + i * THREADS;
        uint from = base + min(first + unit / across, end - 1) * stride;
        next[i] = load_four(other, from, unit % across * 4, width);
    }
}

// Lines from `end` on are 0, for their weights are and the products must be.
void put_lines(uint stage, uint first, uint end, uint width, vec4 next[LINE_LOADS]) {
    uint across = (width - 1) / 4 + 1;
    bool whole = first + SLAB <= end;
    [[unroll]] for (uint i = 0; i < LINE_LOADS; ++i) {
        uint unit = at + i * THREADS, line = unit / across;
        if (!whole && first + line >= end) next[i] = vec4(0.0);
        if (SLAB * across == LINE_LOADS * THREADS || line < SLAB)
            tile[stage + OTHER_AT + line * PITCH + unit % across] = next[i];
    }
}

// Of the tile's column start + k; `start` is a multiple of SLAB.
void read_lines(
    uint stage, uint start, uint k, out vec4 left[ROW_QUADS],
    out vec4 right[RESULT_QUADS]) {
    [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h) {
        // That of start / 4 + k / 4, of which the one has bits that the other has not.
        uint place = swizzled(swizzled(team * ROW_QUADS + h, start / 4), k / 4);
        left[h] = tile[start * BLOCK_QUADS + place + k * BLOCK_QUADS];
    }
    [[unroll]] for (uint j = 0; j < RESULT_QUADS; ++j)
        right[j] = tile[stage + OTHER_AT + k * PITCH + j * LANES + lane];
}

// sums[i][c] += sum over the tile's columns of tile[i][column] * other[column][c], for
// columns of the other side from `first` to before `end`, of which each has `width`. The
// first stage's lines have been fetched: `next`.
void accumulate(
    In other, uint base, uint stride, uint first, uint end, uint width,
    vec4 next[LINE_LOADS], inout vec4 sums[ROWS][RESULT_QUADS]) {
    uint last = min(SPAN, end - first);
    vec4 left[2][ROW_QUADS], right[2][RESULT_QUADS];
    uint stage = STAGES_AT;
    barrier();
    put_lines(stage, first, end, width, next);
    barrier();
    fetch_lines(other, base, stride, first + SLAB, end, width, next);
    read_lines(stage, 0, 0, left[0], right[0]);
    for (uint start = 0; start < last; start += SLAB) {
        uint later = 2 * STAGES_AT + STAGE - stage;
        [[unroll]] for (uint k = 0; k < SLAB; ++k) {
            const uint now = k % 2, then = now ^ 1;
            if (k + 1 < SLAB) {
                read_lines(stage, start, k + 1, left[then], right[then]);
            } else if (start + SLAB < last) {
                uint from = first + start + SLAB;
                put_lines(later, from, end, width, next);
                barrier();
                fetch_lines(other, base, stride, from + SLAB, end, width, next);
                read_lines(later, start + SLAB, 0, left[then], right[then]);
            }
            MULTIPLY_ADD(sums, RESULT_QUADS, left[now], right[now])
        }
        stage = later;
    }
}

// Store own vectors, of which there are `count`, from `base` on, `stride` apart.
void store_own(
    Out out_, vec4 sums[ROWS][RESULT_QUADS], uint width, uint base, uint stride,
    uint first_row, uint count) {
    [[unroll]] for (uint i = 0; i < ROWS; ++i)
        [[unroll]] for (uint c = 0; c < 4 * RESULT_QUADS; ++c) {
            uint row = first_row + row_of(i), column = column_of(c);
            if (row < count && column < width)
                store(out_, base + row * stride + column, sums[i][c / 4][c % 4]);
        }
}
