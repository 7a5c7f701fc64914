// GEMV and skinny GEMM with quantized weights, which are decoded in registers
// grid    linear in TURNS groups of OUTPUTS columns; z: ROWS rows of x
// in      x (rows, k); blocks (columns, row_size bytes, or vectors of FLOATS); bias
//         (columns), with HAS_BIAS; pieces: of a row of blocks; table: see format.glsl
// out     out_ (rows, columns), DTYPE, unless an epilogue takes them; sums are float32
// consts  ROWS; OUTPUTS: columns of a workgroup, a multiple of 4 and, without shuffles, a
//         divisor of LOCAL_X;
//         BATCH: columns whose loads are in flight together, a divisor of OUTPUTS;
//         HAS_BIAS; GROUP of int4; AHEAD: whether the first columns' loads of a round
//         come before those of the activations; SHARES: invocations that add up a column
//         by shuffles, a power of two; TURNS: groups of columns, one after the other
// macros  FLOATS: weights are of DTYPE, 16 bits, and not quantized;
//         INTEGER_DOT: 16-bit activations are taken as integers, for dp4a;
//         GATED: of as many rows of `gate` and of `blocks` the products g and u become
//         f(g) * u, f by GATE; without a bias;
//         GATHERED: z is a row of the result, that of row z / share of x with the one of
//         `matrices` that `numbers` has for it; error: a number out of range;
//         NORMED: rows of x are taken as after an RMS norm with the weight `gamma`;
//         SHUFFLES: subgroups, which are full and have SHARES invocations or more, add up
//         columns without shared memory
// lint    bank-conflict: of the last sums, one of a column for each workgroup
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/dtype.glsl"
#include "lib/horizontal.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "lib/vec4_io.glsl"
#ifdef FLOATS
#include "quantized/floats.glsl"
#else
#include "quantized/format.glsl"
#endif
#ifdef GATHERED
#include "lib/matrix_number.glsl"
#endif

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint OUTPUTS = 8;
layout(constant_id = 5) const uint BATCH = 4;
layout(constant_id = 6) const uint HAS_BIAS = 0;
layout(constant_id = 8) const uint AHEAD = 0;
layout(constant_id = 10) const uint TURNS = 1;
#ifdef GATED
layout(constant_id = 7) const uint GATE = 0;
#include "matmul/gate.glsl"
// Sums of a workgroup: those of `gate`, then those of `blocks`.
#define SUMS (2 * OUTPUTS)
#else
#define SUMS OUTPUTS
#endif

#ifdef FLOATS
#include "quantized/activations_of_floats.glsl"
#elif defined(INTEGER_DOT)
#include "quantized/activations_int16.glsl"
#else
#include "quantized/activations_float.glsl"
#endif

// Invocations that add up the sums of a column.
#ifdef SHUFFLES
layout(constant_id = 9) const uint SHARES = 1;
#else
const uint SHARES = gl_WorkGroupSize.x / SUMS;
#endif
// They read different banks.
const uint PITCH = gl_WorkGroupSize.x + SHARES;

#ifdef NORMED
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Weights { vec4 at[]; };
#endif

BEGIN_ARGUMENTS
    QuadsIn x;
    Blocks blocks;
    In bias;
    Out out_;
#ifdef GATED
    Blocks gate;
#endif
#ifdef NORMED
    Weights gamma;
#endif
    uint rows;
    uint columns;
    uint row_size;
    uint pieces;
    uint table;
#ifdef GATHERED
    Numbers numbers;
    IndexSlot error;
    uint matrices;
    uint share;
#endif
#ifdef NORMED
    float eps;
#endif
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
END_ARGUMENTS

shared float parts[ROWS * SUMS * PITCH];
#ifdef NORMED
float squares[ROWS];
#endif
#ifdef SHUFFLES
uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#ifdef NORMED
shared float square_shares[ROWS][gl_WorkGroupSize.x];
#endif
#else
uint thread = gl_LocalInvocationIndex;
shared float shares[gl_WorkGroupSize.x];
#ifdef NORMED
const uint SQUARE_SHARES = gl_WorkGroupSize.x < 32 ? gl_WorkGroupSize.x : 32;
shared float square_parts[gl_WorkGroupSize.x];
shared float square_shares[SQUARE_SHARES];
#endif
#endif
#if defined(EPILOGUE) || defined(GATED)
shared float totals[SUMS];
#endif

// The first column of the workgroup's turn, its first row, the first column of its
// matrix, and how many rows of results share one of x.
uint group, first_row, matrix = 0, repeats = 1;

// Where column number c of the workgroup begins; the last column is taken once more.
uint line_of(uint c) {
    return (matrix + min(group + c % OUTPUTS, push.columns - 1)) * push.row_size;
}

// The invocation's piece of a round; beyond the last one, that is taken once more.
uint piece_number(uint start) { return min(start + thread, push.pieces - 1); }

// Take the activations of the piece into registers, for all columns; squares are added
// up the first time.
void load_activations(uint start, bool is_first) {
    QuadsIn x = push.x;
#ifdef NORMED
    Weights gamma = push.gamma;
#endif
    uint number = piece_number(start);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint row = min(first_row + r, push.rows - 1) / repeats * push.pieces * QUADS;
        vec4 own[QUADS];
        [[unroll]] for (uint i = 0; i < QUADS; ++i) {
            uint place = quad_place(number, i);
            vec4 values = load_quad(x, row + place);
            if (start + thread >= push.pieces) values = vec4(0);
#ifdef NORMED
            if (is_first)
                [[unroll]] for (uint e = 0; e < 4; ++e)
                    squares[r] = fma(values[e], values[e], squares[r]);
            values *= gamma.at[place];
#endif
            own[i] = values;
        }
        keep(r, own);
    }
}

#ifdef SHUFFLES
float add_lanes(float sum, uint lanes) {
    for (uint step = lanes / 2; step > 0; step /= 2) sum += subgroupShuffleXor(sum, step);
    return sum;
}
#endif

#ifdef NORMED
float inverse_rms(float square) {
    return inversesqrt(square / float(4 * push.pieces * QUADS) + push.eps);
}
#endif

void main() {
    READ_ARGUMENTS
    // Read before all loops: inside one it ends the process of SwiftShader.
    Blocks blocks = push.blocks;
#ifdef GATED
    Blocks gate = push.gate;
#endif
    group = OWN_WORKGROUP * TURNS * OUTPUTS;
    if (group >= push.columns) return;
    first_row = gl_WorkGroupID.z * ROWS;
#ifdef GATHERED
    matrix = matrix_number(push.numbers, first_row, push.matrices, push.error);
    matrix *= push.columns;
    repeats = push.share;
#endif
#ifdef NORMED
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
#endif
    uint turn = 0;
    // With one turn there is no loop.
    [[dont_unroll]] do {
        for (uint start = 0; start < push.pieces; start += gl_WorkGroupSize.x) {
            uint number = piece_number(start);
            bool is_due = turn == 0 || push.pieces > gl_WorkGroupSize.x;
            if (AHEAD == 0 && is_due) load_activations(start, turn == 0);
            // The less code, the less of it is read for each launch of a decoding step.
            [[dont_unroll]] for (uint c = 0; c < SUMS; c += BATCH) {
                Loaded loaded[BATCH];
#ifdef GATED
                Blocks source = c < OUTPUTS ? gate : blocks;
#else
                Blocks source = blocks;
#endif
                [[unroll]] for (uint b = 0; b < BATCH; ++b)
                    loaded[b] = load_piece(source, line_of(c + b), number, push.table);
                if (AHEAD != 0 && c == 0 && is_due) load_activations(start, turn == 0);
                [[unroll]] for (uint b = 0; b < BATCH; ++b) {
                    float products[ROWS];
                    multiply(decoded(loaded[b], line_of(c + b), number), products);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        uint at = (r * SUMS + c + b) * PITCH + thread;
                        parts[at] = start == 0 ? products[r] : parts[at] + products[r];
                    }
                }
            }
        }

        uint own = thread / SHARES, share = thread % SHARES;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = first_row + r;
#ifdef SHUFFLES
#ifdef NORMED
            float square = add_lanes(squares[r], gl_SubgroupSize);
            if (gl_SubgroupInvocationID == 0) square_shares[r][gl_SubgroupID] = square;
#endif
            barrier();
            float result = 0.0;
            if (own < SUMS)
                for (uint at = share; at < gl_WorkGroupSize.x; at += SHARES)
                    result += parts[(r * SUMS + own) * PITCH + at];
            result = add_lanes(result, SHARES);
#ifdef NORMED
            square = 0.0;
            for (uint other = 0; other < gl_NumSubgroups; ++other)
                square += square_shares[r][other];
            result *= inverse_rms(square);
#endif
            uint sum = own;
            bool has_sum = share == 0 && own < SUMS;
#else
#ifdef NORMED
            square_parts[thread] = squares[r];
#endif
            barrier();
            float part = 0.0;
            for (uint at = share; at < gl_WorkGroupSize.x; at += SHARES)
                part += parts[(r * SUMS + own) * PITCH + at];
            shares[thread] = part;
#ifdef NORMED
            if (thread < SQUARE_SHARES) {
                float square = 0.0;
                for (uint at = thread; at < gl_WorkGroupSize.x; at += SQUARE_SHARES)
                    square += square_parts[at];
                square_shares[thread] = square;
            }
#endif
            barrier();
            uint sum = thread;
            bool has_sum = thread < SUMS;
            float result = 0.0;
            if (has_sum) {
                for (uint other = 0; other < SHARES; ++other)
                    result += shares[thread * SHARES + (other + thread) % SHARES];
#ifdef NORMED
                float square = 0.0;
                for (uint other = 0; other < SQUARE_SHARES; ++other)
                    square += square_shares[other];
                result *= inverse_rms(square);
#endif
            }
#endif
            uint column = group + sum;
            if (HAS_BIAS != 0 && has_sum)
                result += load(push.bias, min(column, push.columns - 1));
            bool is_result = has_sum && sum < OUTPUTS;
#if defined(EPILOGUE) || defined(GATED)
            if (has_sum) totals[sum] = result;
            barrier();
#ifdef GATED
            column = group + thread;
            is_result = thread < OUTPUTS;
            if (is_result) result = gated(totals[thread]) * totals[OUTPUTS + thread];
#ifdef EPILOGUE
            // Its own sum; the others are no longer read.
            if (is_result) totals[thread] = result;
            barrier();
#endif
#endif
#endif
#ifdef EPILOGUE
            if (thread < OUTPUTS / 4) {
                uint first = group + 4 * thread;
                vec4 values = vec4(totals[4 * thread], totals[4 * thread + 1],
                    totals[4 * thread + 2], totals[4 * thread + 3]);
                if (first < push.columns && row < push.rows)
                    epilogue(push.epilogue, (row * push.columns + first) / 4, values);
            }
#else
            if (is_result && column < push.columns && row < push.rows)
                store(push.out_, row * push.columns + column, result);
#endif
        }
        // Sums are read before those of the next turn take their place.
        if (turn + 1 < TURNS) barrier();
    } while (++turn < TURNS && (group += OUTPUTS) < push.columns);
}
