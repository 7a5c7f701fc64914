// GEMV and skinny GEMM with quantized weights, which are decoded in registers
// grid    linear in groups of OUTPUTS columns; z: ROWS rows of x
// in      x (rows, k); blocks (columns, row_size bytes, or vectors of FLOATS); bias
//         (columns), with HAS_BIAS; pieces: of a row of blocks; table: see format.glsl
// out     out_ (rows, columns), DTYPE, unless an epilogue takes them; sums are float32
// consts  ROWS; OUTPUTS: columns of a workgroup, a multiple of 4 and a divisor of LOCAL_X;
//         BATCH: columns whose loads are in flight together, a divisor of OUTPUTS;
//         HAS_BIAS; GROUP of int4
// macros  FLOATS: weights are of DTYPE, 16 bits, and not quantized;
//         INTEGER_DOT: 16-bit activations are taken as integers, for dp4a;
//         GATED: of as many rows of `gate` and of `blocks` the products g and u become
//         f(g) * u, f by GATE; without a bias;
//         GATHERED: z is a row of the result, that of row z / share of x with the one of
//         `matrices` that `numbers` has for it; error: a number out of range;
//         NORMED: rows of x are taken as after an RMS norm with the weight `gamma`
// lint    bank-conflict: of the last sums, one of a column for each workgroup
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
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
const uint SHARES = gl_WorkGroupSize.x / SUMS;
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
shared float shares[gl_WorkGroupSize.x];
#ifdef NORMED
const uint SQUARE_SHARES = gl_WorkGroupSize.x < 32 ? gl_WorkGroupSize.x : 32;
shared float square_parts[gl_WorkGroupSize.x];
shared float square_shares[SQUARE_SHARES];
#endif
#if defined(EPILOGUE) || defined(GATED)
shared float totals[SUMS];
#endif

void main() {
    READ_ARGUMENTS
    QuadsIn x = push.x;
    Blocks blocks = push.blocks;
    In bias = push.bias;
    Out out_ = push.out_;
#ifdef GATED
    Blocks gate = push.gate;
#endif
    uint thread = gl_LocalInvocationIndex;
    uint group = OWN_WORKGROUP * OUTPUTS;
    if (group >= push.columns) return;
    uint first_row = gl_WorkGroupID.z * ROWS;
    uint quads = push.pieces * QUADS;
    uint matrix = 0, repeats = 1;
#ifdef GATHERED
    matrix = matrix_number(push.numbers, first_row, push.matrices, push.error);
    matrix *= push.columns;
    repeats = push.share;
#endif
#ifdef NORMED
    Weights gamma = push.gamma;
    float eps = push.eps;
    float squares[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
#endif
    for (uint start = 0; start < push.pieces; start += gl_WorkGroupSize.x) {
        // An invocation has the activations of its piece in registers for all columns.
        // Beyond the last piece, column or row, the last one is computed once more.
        uint number = min(start + thread, push.pieces - 1);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = min(first_row + r, push.rows - 1) / repeats * quads;
            vec4 own[QUADS];
            [[unroll]] for (uint i = 0; i < QUADS; ++i) {
                uint place = quad_place(number, i);
                vec4 values = load_quad(x, row + place);
                if (start + thread >= push.pieces) values = vec4(0);
#ifdef NORMED
                [[unroll]] for (uint e = 0; e < 4; ++e)
                    squares[r] = fma(values[e], values[e], squares[r]);
                values *= gamma.at[place];
#endif
                own[i] = values;
            }
            keep(r, own);
        }
        // The less code, the less of it is read for each launch of a decoding step.
        [[dont_unroll]] for (uint c = 0; c < SUMS; c += BATCH) {
            Piece piece[BATCH];
#ifdef GATED
            Blocks source = c < OUTPUTS ? gate : blocks;
#else
            Blocks source = blocks;
#endif
            [[unroll]] for (uint b = 0; b < BATCH; ++b) {
                uint column = min(group + c % OUTPUTS + b, push.columns - 1);
                uint line = (matrix + column) * push.row_size;
                piece[b] = fetch(source, line, number, push.table);
            }
            [[unroll]] for (uint b = 0; b < BATCH; ++b) {
                float products[ROWS];
                multiply(piece[b], products);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    uint at = (r * SUMS + c + b) * PITCH + thread;
                    parts[at] = start == 0 ? products[r] : parts[at] + products[r];
                }
            }
        }
    }

    uint own = thread / SHARES, share = thread % SHARES;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
#ifdef NORMED
        square_parts[thread] = squares[r];
#endif
        barrier();
        float sum = 0.0;
        for (uint at = share; at < gl_WorkGroupSize.x; at += SHARES)
            sum += parts[(r * SUMS + own) * PITCH + at];
        shares[thread] = sum;
#ifdef NORMED
        if (thread < SQUARE_SHARES) {
            float square = 0.0;
            for (uint at = thread; at < gl_WorkGroupSize.x; at += SQUARE_SHARES)
                square += square_parts[at];
            square_shares[thread] = square;
        }
#endif
        barrier();
        uint row = first_row + r, column = group + thread;
        bool is_result = thread < OUTPUTS && column < push.columns && row < push.rows;
        float result = 0.0;
        if (thread < SUMS) {
            for (uint other = 0; other < SHARES; ++other)
                result += shares[thread * SHARES + (other + thread) % SHARES];
#ifdef NORMED
            float square = 0.0;
            for (uint other = 0; other < SQUARE_SHARES; ++other)
                square += square_shares[other];
            result *= inversesqrt(square / float(4 * quads) + eps);
#endif
            if (HAS_BIAS != 0) result += load(bias, min(column, push.columns - 1));
#if defined(EPILOGUE) || defined(GATED)
            totals[thread] = result;
#endif
        }
#ifdef GATED
        barrier();
        if (thread < OUTPUTS) result = gated(result) * totals[OUTPUTS + thread];
#ifdef EPILOGUE
        // Its own sum; the others are no longer read.
        if (thread < OUTPUTS) totals[thread] = result;
#endif
#endif
#ifdef EPILOGUE
        barrier();
        if (thread < OUTPUTS / 4) {
            uint first = group + 4 * thread;
            vec4 values = vec4(totals[4 * thread], totals[4 * thread + 1],
                totals[4 * thread + 2], totals[4 * thread + 3]);
            if (first < push.columns && row < push.rows)
                epilogue(push.epilogue, (row * push.columns + first) / 4, values);
        }
#else
        if (is_result) store(out_, row * push.columns + column, result);
#endif
    }
}
