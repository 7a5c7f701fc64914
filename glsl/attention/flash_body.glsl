// Flash attention, shared body: arguments, and dot products of both sides' vectors
//
// A workgroup owns BLOCK vectors of one side, queries or keys, ROWS for each team of
// LANES invocations, and loops over the other side in steps of SPAN, TILE for each
// invocation. The includer first includes lib/dtype.glsl, lib/index.glsl,
// lib/math/exponential.glsl and lib/philox.glsl, and defines OWN_FIELDS, its own fields
// of the arguments. With QUADS vectors of both sides are whole vec4, aligned to four
// elements; TILE is one, and STAGED.

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint VALUE_HEAD = 64;
layout(constant_id = 5) const uint LANES = 32;
layout(constant_id = 6) const uint ROWS = 8;
layout(constant_id = 7) const uint TILE = 2;
layout(constant_id = 8) const uint CAUSAL = 0;
layout(constant_id = 9) const uint HAS_MASK = 0;
layout(constant_id = 10) const uint DROPOUT = 0;
// Whether vectors of the other side are staged in shared memory, for coalesced loads;
// with QUADS they always are.
layout(constant_id = 11) const uint STAGED = 1;

const uint BLOCK = ROWS * (gl_WorkGroupSize.x / LANES);
const uint SPAN = TILE * LANES;
const uint SLAB = 16;

#define VECTORS In
#include "attention/arguments.glsl"
#include "attention/score.glsl"

// Own elements, and those of the tile, are taken STEP at a time. Of the columns of the
// tile, and of a result, an invocation has column_of(0), column_of(1) and so on.
#ifdef QUADS
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/vec4_io.glsl"
const uint PITCH = SPAN + 4, STEP = 4;
const uint COLUMNS = ((HEAD - 1) / (4 * LANES) + 1) * 4;
const uint VALUE_COLUMNS = ((VALUE_HEAD - 1) / (4 * LANES) + 1) * 4;
// The tile, aliased by elements of own vectors while it is dead. Then the slab.
const uint SLAB_AT = BLOCK * PITCH, OWN_PITCH = BLOCK + 4;
shared vec4 tile[(SLAB_AT + SLAB * PITCH) / 4];
#define TAKEN vec4
#define FALLING_EXP quick_exp
// By way of two words, for SwiftShader crashes on the direct one.
#define QUADS_OF(x) QuadsIn(uvec2(x))
#define TAKE_TILE(i) tile[(i) / 4]
#else
const uint PITCH = SPAN + 1, STEP = 2;
const uint COLUMNS = (HEAD - 1) / LANES + 1;
const uint VALUE_COLUMNS = (VALUE_HEAD - 1) / LANES + 1;
shared float tile[BLOCK * PITCH];
shared float slab[STAGED != 0 ? SLAB * PITCH : 1];
#define TAKEN vec2
#define FALLING_EXP row_exp
#define TAKE_TILE(i) vec2(tile[i], tile[(i) + 1])
#endif

uint at = gl_LocalInvocationIndex;
uint lane = at % LANES, team = at / LANES;

#ifdef QUADS
uint column_of(uint j) { return (j / 4 * LANES + lane) * 4 + j % 4; }
#else
uint column_of(uint j) { return j * LANES + lane; }
#endif

#ifdef QUADS
// Load SLAB elements from `start` on of `lines` vectors from `first` on into shared
// memory at `to`, transposed: adjacent vectors, `pitch` from one element to the next.
void fill(
    uint to, uint pitch, uint lines, In x, uint base, uint stride, uint count, uint first,
    uint start, uint depth, bool is_own) {
    // Four elements of four vectors at a time.
    for (uint i = at; i < SLAB / 4 * lines / 4; i += gl_WorkGroupSize.x) {
        uint vector = i / (SLAB / 4) * 4, e = i % (SLAB / 4) * 4;
        mat4 block;
        for (uint u = 0; u < 4; ++u) {
            uint place = min(first + vector + u, count - 1);
            uint from = base + (is_own ? place * stride : LINE_AT(place, stride));
            from += min(start + e, depth - 4);
            block[u] = load_quad(QUADS_OF(x), from / 4);
        }
        block = transpose(block);
        for (uint u = 0; u < 4; ++u) tile[(to + (e + u) * pitch + vector) / 4] = block[u];
    }
}

// Dot products of own vectors, from `own_first` on of `own_count`, and those of the
// other side from `first` on, of which there are `count`, `stride` apart.
void multiply(
    In own, uint own_base, uint own_stride, uint own_count, uint own_first, In other,
    uint base, uint stride, uint count, uint first, uint depth,
    out float result[ROWS][TILE]) {
    for (uint i = 0; i < ROWS; ++i)
        for (uint j = 0; j < TILE; ++j) result[i][j] = 0.0;
    for (uint start = 0; start < depth; start += SLAB) {
        barrier();
        fill(
            0, OWN_PITCH, BLOCK, own, own_base, own_stride, own_count, own_first, start,
            depth, true);
        fill(SLAB_AT, PITCH, SPAN, other, base, stride, count, first, start, depth, false);
        barrier();
        for (uint e = 0; e < min(SLAB, depth - start); ++e) {
            float taken[ROWS], values[TILE];
            for (uint i = 0; i < ROWS; i += 4) {
                vec4 quad = tile[(e * OWN_PITCH + team * ROWS + i) / 4];
                for (uint w = 0; w < 4; ++w) taken[i + w] = quad[w];
            }
            for (uint j = 0; j < TILE; j += 4) {
                vec4 quad = tile[(SLAB_AT + e * PITCH + column_of(j)) / 4];
                for (uint w = 0; w < 4; ++w) values[j + w] = quad[w];
            }
            for (uint i = 0; i < ROWS; ++i)
                for (uint j = 0; j < TILE; ++j)
                    result[i][j] = fma(taken[i], values[j], result[i][j]);
        }
    }
}
#else
// Load elements of the other side's vectors, from `start` on, into the slab.
void fill(
    In other, uint base, uint stride, uint count, uint first, uint start, uint depth) {
    barrier();
    for (uint i = at; i < SLAB * SPAN; i += gl_WorkGroupSize.x) {
        uint entry = base + LINE_AT(min(first + i / SLAB, count - 1), stride);
        slab[i % SLAB * PITCH + i / SLAB] =
            load(other, entry + min(start + i % SLAB, depth - 1));
    }
    barrier();
}

// As above.
void multiply(
    In own, uint own_base, uint own_stride, uint own_count, uint own_first, In other,
    uint base, uint stride, uint count, uint first, uint depth,
    out float result[ROWS][TILE]) {
    uint own_at[ROWS], other_at[TILE];
    for (uint i = 0; i < ROWS; ++i) {
        uint row = min(own_first + team * ROWS + i, own_count - 1);
        own_at[i] = own_base + row * own_stride;
        for (uint j = 0; j < TILE; ++j) result[i][j] = 0.0;
    }
    for (uint j = 0; j < TILE; ++j)
        other_at[j] = base + LINE_AT(min(first + column_of(j), count - 1), stride);
    for (uint start = 0; start < depth; start += SLAB) {
        if (STAGED != 0) fill(other, base, stride, count, first, start, depth);
        for (uint first_e = start; first_e < min(start + SLAB, depth); first_e += STEP) {
            TAKEN taken[ROWS];
            for (uint i = 0; i < ROWS; ++i) {
                taken[i].x = load(own, own_at[i] + first_e);
                taken[i].y = load(own, own_at[i] + min(first_e + 1, depth - 1));
            }
            for (uint u = 0; u < STEP; ++u) {
                float values[TILE];
                uint e = first_e + u;
                for (uint j = 0; j < TILE; ++j) {
                    if (STAGED != 0) values[j] = slab[(e - start) * PITCH + column_of(j)];
                    else values[j] = load(other, other_at[j] + min(e, depth - 1));
                    if (e >= depth) values[j] = 0.0;
                }
                for (uint i = 0; i < ROWS; ++i)
                    for (uint j = 0; j < TILE; ++j)
                        result[i][j] = fma(taken[i][u], values[j], result[i][j]);
            }
        }
    }
}
#endif

// Store this invocation's results to the tile, after the last read of the old one.
void share(float values[ROWS][TILE]) {
    barrier();
    for (uint i = 0; i < ROWS; ++i)
#ifdef QUADS
        for (uint j = 0; j < TILE; j += 4)
            TAKE_TILE((team * ROWS + i) * PITCH + column_of(j)) = vec4(
                values[i][j], values[i][j + 1], values[i][j + 2], values[i][j + 3]);
#else
        for (uint j = 0; j < TILE; ++j)
            tile[(team * ROWS + i) * PITCH + column_of(j)] = values[i][j];
#endif
    barrier();
}

// Load this invocation's columns of a vector; values beyond its end are never used.
#ifdef QUADS
#define LOAD_COLUMNS(values, WIDTH, WIDTH_COLUMNS, other, from)                          \
    for (uint c = 0; c < WIDTH_COLUMNS; c += 4) {                                        \
        uint place_ = from + min(column_of(c), WIDTH - 4);                               \
        vec4 quad_ = load_quad(QUADS_OF(other), place_ / 4);                             \
        for (uint w_ = 0; w_ < 4; ++w_) values[c + w_] = quad_[w_];                      \
    }
#else
#define LOAD_COLUMNS(values, WIDTH, WIDTH_COLUMNS, other, from)                          \
    for (uint c = 0; c < WIDTH_COLUMNS; ++c)                                             \
        values[c] = load(other, from + min(column_of(c), WIDTH - 1));
#endif

// sums[i][c] += sum over the tile's columns of tile[i][column] * other[column][c], for
// columns of the other side from `first` to before `end`; those from there on are 0.
// STEP at a time, as in `multiply`, for some drivers end loops after so many rounds.
#define ACCUMULATE(sums, WIDTH, WIDTH_COLUMNS, other, base, stride, first, end)          \
    for (uint step_ = 0; step_ < SPAN && first + step_ < end; step_ += STEP) {           \
        TAKEN taken_[ROWS];                                                              \
        for (uint i = 0; i < ROWS; ++i)                                                  \
            taken_[i] = TAKE_TILE((team * ROWS + i) * PITCH + step_);                    \
        for (uint u_ = 0; u_ < STEP; ++u_) {                                             \
            float values_[WIDTH_COLUMNS];                                                \
            uint line_ = min(first + step_ + u_, end - 1);                               \
            uint from_ = base + LINE_AT(line_, stride);                                  \
            LOAD_COLUMNS(values_, WIDTH, WIDTH_COLUMNS, other, from_)                    \
            for (uint i = 0; i < ROWS; ++i)                                              \
                for (uint c = 0; c < WIDTH_COLUMNS; ++c)                                 \
                    sums[i][c] = fma(taken_[i][u_], values_[c], sums[i][c]);             \
        }                                                                                \
    }

// Store own vectors, of which there are `count`, from `base` on, `stride` apart.
#define STORE(out_, sums, WIDTH, WIDTH_COLUMNS, base, stride, first_row, count)          \
    for (uint i = 0; i < ROWS; ++i) {                                                    \
        uint row_ = first_row + team * ROWS + i;                                         \
        for (uint c = 0; c < WIDTH_COLUMNS; ++c) {                                       \
            uint column_ = column_of(c);                                             \
            if (row_ < count && column_ < WIDTH)                                         \
                store(out_, base + row_ * (stride) + column_, sums[i][c]);               \
        }                                                                                \
    }
