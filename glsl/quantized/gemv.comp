// GEMV and skinny GEMM with quantized weights, which are decoded in registers
// grid    linear in groups of LOCAL_X / LANES * OUTPUTS columns; z: ROWS rows of x
// in      x (rows, k); blocks (columns, row_size bytes); bias (columns), with HAS_BIAS;
//         pieces: of a row of blocks; table: see format.glsl
// out     out_ (rows, columns), DTYPE, unless an epilogue takes them; sums are float32
// consts  ROWS; LANES: invocations that share a column, a divisor of LOCAL_X; OUTPUTS:
//         columns of an invocation; STAGE: quads of a row of x in shared memory, a
//         multiple of 64; HAS_BIAS; GROUP of int4
// macros  NORMED: rows of x are taken as after an RMS norm with the weight `gamma`; then
//         LOCAL_X is a power of two
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/horizontal.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "lib/vec4_io.glsl"
#include "quantized/format.glsl"

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint LANES = 32;
layout(constant_id = 5) const uint OUTPUTS = 2;
layout(constant_id = 6) const uint STAGE = 64;
layout(constant_id = 7) const uint HAS_BIAS = 0;

const uint TEAMS = gl_WorkGroupSize.x / LANES;
const uint STRIDE = STAGE + STAGE / 8 + STAGE / 32 * 2;
const uint STAGE_PIECES = STAGE / QUADS;

#ifdef NORMED
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Weights { vec4 at[]; };
#endif

BEGIN_ARGUMENTS
    QuadsIn x;
    Blocks blocks;
    In bias;
    Out out_;
#ifdef NORMED
    Weights gamma;
#endif
    uint rows;
    uint columns;
    uint row_size;
    uint pieces;
    uint table;
#ifdef NORMED
    float eps;
#endif
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
END_ARGUMENTS

shared vec4 staged[ROWS * STRIDE];
shared float parts[OUTPUTS][gl_WorkGroupSize.x];
#ifdef NORMED
shared float square_parts[gl_WorkGroupSize.x];
#endif
#ifdef EPILOGUE
shared float totals[TEAMS * OUTPUTS];
#endif

void main() {
    READ_ARGUMENTS
    QuadsIn x = push.x;
    Blocks blocks = push.blocks;
    In bias = push.bias;
    Out out_ = push.out_;
    uint thread = gl_LocalInvocationIndex;
    uint lane = thread % LANES;
    uint group = OWN_WORKGROUP * TEAMS * OUTPUTS;
    if (group >= push.columns) return;
    uint first = group + thread / LANES * OUTPUTS;
    uint quads = push.pieces * QUADS;

    // Beyond the last column or row, the last one is computed once more.
    uint from[OUTPUTS];
    float sum[ROWS][OUTPUTS];
    [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) {
        from[o] = min(first + o, push.columns - 1) * push.row_size;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sum[r][o] = 0.0;
    }
#ifdef NORMED
    Weights gamma = push.gamma;
    float eps = push.eps;
    float squares[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
#endif
    for (uint start = 0; start < push.pieces; start += STAGE_PIECES) {
        uint count = min(STAGE, quads - start * QUADS);
        barrier();
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = min(gl_WorkGroupID.z * ROWS + r, push.rows - 1);
            for (uint q = thread; q < count; q += gl_WorkGroupSize.x) {
                vec4 quad = load_quad(x, row * quads + start * QUADS + q);
#ifdef NORMED
                squares[r] += dot(quad, quad);
                quad *= gamma.at[start * QUADS + q];
#endif
                staged[r * STRIDE + PADDED(q)] = quad;
            }
        }
        barrier();
        uint end = min(start + STAGE_PIECES, push.pieces);
        for (uint number = start + lane; number < end; number += LANES) {
            Piece piece[OUTPUTS];
            [[unroll]] for (uint o = 0; o < OUTPUTS; ++o)
                piece[o] = fetch(blocks, from[o], number, push.table);
            [[unroll]] for (uint run = 0; run < RUNS; ++run) {
                // Sums of products with codes, and of x alone: the scale, offset and
                // shift of a run come last.
                float products[ROWS][OUTPUTS], total[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    total[r] = 0.0;
                    [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) products[r][o] = 0.0;
                }
                [[unroll]] for (uint k = 0; k < RUN; ++k) {
                    uint i = run * RUN + k;
                    uint place = PADDED(quad_place(number - start, i));
                    vec4 quad[ROWS];
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        quad[r] = staged[r * STRIDE + place];
#if HAS_OFFSET || HAS_SHIFT
                        total[r] += quad[r].x + quad[r].y + (quad[r].z + quad[r].w);
#endif
                    }
                    [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) {
                        vec4 values = floats_of(codes(piece[o], i));
                        [[unroll]] for (uint r = 0; r < ROWS; ++r)
                            products[r][o] += dot(values, quad[r]);
                    }
                }
                [[unroll]] for (uint r = 0; r < ROWS; ++r)
                    [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) {
                        float value = products[r][o];
#if HAS_OFFSET
                        value -= piece[o].offset * total[r];
#endif
                        sum[r][o] = fma(piece[o].scale[run], value, sum[r][o]);
#if HAS_SHIFT
                        sum[r][o] = fma(piece[o].shift[run], total[r], sum[r][o]);
#endif
                    }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        barrier();
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) parts[o][thread] = sum[r][o];
#ifdef NORMED
        square_parts[thread] = squares[r];
        barrier();
        for (uint step = gl_WorkGroupSize.x / 2; step > 0; step /= 2) {
            if (thread < step) square_parts[thread] += square_parts[thread + step];
            barrier();
        }
        float factor = inversesqrt(square_parts[0] / float(4 * quads) + eps);
#else
        barrier();
        const float factor = 1.0;
#endif
        uint row = gl_WorkGroupID.z * ROWS + r;
        for (uint at = thread; at < TEAMS * OUTPUTS; at += gl_WorkGroupSize.x) {
            uint column = group + at;
            float total = 0.0;
            // Each starts elsewhere, so that they read different banks.
            for (uint other = 0; other < LANES; ++other)
                total += parts[at % OUTPUTS][at / OUTPUTS * LANES + (other + at) % LANES];
            total *= factor;
            if (HAS_BIAS != 0) total += load(bias, min(column, push.columns - 1));
#ifdef EPILOGUE
            totals[at] = total;
#else
            if (column < push.columns && row < push.rows)
                store(out_, row * push.columns + column, total);
#endif
        }
#ifdef EPILOGUE
        barrier();
        for (uint quad = thread; quad < TEAMS * OUTPUTS / 4; quad += gl_WorkGroupSize.x) {
            uint column = group + 4 * quad;
            vec4 values = vec4(totals[4 * quad], totals[4 * quad + 1],
                totals[4 * quad + 2], totals[4 * quad + 3]);
            if (column < push.columns && row < push.rows)
                epilogue(push.epilogue, (row * push.columns + column) / 4, values);
        }
#endif
    }
}
