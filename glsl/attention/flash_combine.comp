// Results of split-KV attention, of those of slices of the keys
// grid    one workgroup per row, linear
// in      sums, statistics: the results of attention/flash_split.comp; sums of a slice
//         whose greatest score is -inf are not read
// out     out_ (batch, queries, heads, VALUE_HEAD) T; logsumexp (batch, heads, queries)
//         ACC, as in attention/flash.comp
// consts  VALUE_HEAD; PARTS: invocations that share a result, a divisor of LOCAL_X,
//         which has a power of two of others, VALUE_HEAD at least
// source  Dao, Haziza, Massa and Sizov, Flash-Decoding, 2023
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"

layout(constant_id = 3) const uint VALUE_HEAD = 64;
layout(constant_id = 4) const uint PARTS = 2;

layout(push_constant) uniform Push {
    AccIn sums;
    AccIn statistics;
    Out out_;
    AccOut logsumexp;
    uint rows;  // batch * heads * queries
    uint heads;
    uint queries;
    uint slices;
} push;

const uint PITCH = (VALUE_HEAD - 1) / 4 * 4 + 4;
const uint THREADS = gl_WorkGroupSize.x, LANES = THREADS / PARTS;
// Loads in flight.
const uint TOGETHER = 8;

shared float partial[THREADS];
shared float factors[THREADS];
shared uint ends[THREADS];

void main() {
    uint row = linear_workgroup(), rows = push.rows, slices = push.slices;
    uint heads = push.heads, queries = push.queries;
    AccIn sums = push.sums, statistics = push.statistics;
    Out out_ = push.out_;
    AccOut logsumexp = push.logsumexp;
    if (row >= rows) return;
    uint at = gl_LocalInvocationIndex, column = at % LANES, part = at / LANES;

    // The greatest score, and the end of the slices that have one.
    float greatest = -INFINITE;
    uint end = 0;
    for (uint s = at; s < slices; s += THREADS) {
        float score = statistics.at[(s * rows + row) * 2];
        greatest = max(greatest, score);
        end = score == -INFINITE ? end : s + 1;
    }
    partial[at] = greatest;
    ends[at] = end;
    barrier();
    for (uint step = THREADS / 2; step > 0; step /= 2) {
        if (at < step) {
            partial[at] = max(partial[at], partial[at + step]);
            ends[at] = max(ends[at], ends[at + step]);
        }
        barrier();
    }
    greatest = partial[0];
    end = ends[0];

    float total = 0.0, whole = 0.0;
    for (uint first = 0; first < slices; first += THREADS) {
        uint own = min(first + at, slices - 1);
        float score = statistics.at[(own * rows + row) * 2];
        bool has = first + at < end && score != -INFINITE;
        float factor = has ? quick_exp(score - greatest) : 0.0;
        total = fma(factor, statistics.at[(own * rows + row) * 2 + 1], total);
        barrier();
        factors[at] = factor;
        barrier();
        uint count = min(THREADS, max(end, first) - first);
        for (uint k = part; k < count; k += PARTS * TOGETHER) {
            float found[TOGETHER];
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i) {
                uint s = first + min(k + i * PARTS, count - 1);
                found[i] =
                    sums.at[(s * rows + row) * PITCH + min(column, VALUE_HEAD - 1)];
            }
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i) {
                uint s = k + i * PARTS;
                float weight = s < count ? factors[s % THREADS] : 0.0;
                if (weight != 0.0) whole = fma(weight, found[i], whole);
            }
        }
    }

    barrier();
    partial[at] = total;
    factors[at] = whole;
    barrier();
    for (uint step = THREADS / 2; step > 0; step /= 2) {
        if (at < step) partial[at] += partial[at + step];
        barrier();
    }
    total = partial[0];
    if (at == 0) logsumexp.at[row] = greatest + precise_log(total);
    if (at >= VALUE_HEAD) return;
    for (uint p = 1; p < PARTS; ++p) whole += factors[p * LANES + at];
    uint query = row % queries, head = row / queries % heads;
    uint batch = row / queries / heads;
    uint to = ((batch * queries + query) * heads + head) * VALUE_HEAD + at;
    store(out_, to, total > 0.0 ? whole / total : total);
}
