// Results of split-KV attention, of those of slices of the keys
// grid    one invocation per result, linear
// in      sums, statistics: the results of attention/flash_split.comp
// out     out_ (batch, queries, heads, VALUE_HEAD) T; logsumexp (batch, heads, queries)
//         ACC, as in attention/flash.comp
// consts  VALUE_HEAD
// source  Dao, Haziza, Massa and Sizov, Flash-Decoding, 2023
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"

layout(constant_id = 3) const uint VALUE_HEAD = 64;

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

void main() {
    uint at = linear_invocation(), row = at / VALUE_HEAD, column = at % VALUE_HEAD;
    uint rows = push.rows, slices = push.slices;
    AccIn sums = push.sums, statistics = push.statistics;
    Out out_ = push.out_;
    AccOut logsumexp = push.logsumexp;
    if (row >= rows) return;
    float greatest = -INFINITE;
    for (uint s = 0; s < slices; ++s)
        greatest = max(greatest, statistics.at[(s * rows + row) * 2]);
    float reference = greatest == -INFINITE ? 0.0 : greatest;
    float total = 0.0, whole = 0.0;
    for (uint s = 0; s < slices; ++s) {
        uint from = s * rows + row;
        // A slice that has nothing to see need not have sums.
        if (statistics.at[from * 2] == -INFINITE) continue;
        float factor = quick_exp(statistics.at[from * 2] - reference);
        total = fma(factor, statistics.at[from * 2 + 1], total);
        whole = fma(factor, sums.at[from * VALUE_HEAD + column], whole);
    }
    uint query = row % push.queries, head = row / push.queries % push.heads;
    uint batch = row / push.queries / push.heads;
    uint to = (batch * push.queries + query) * push.heads + head;
    store(out_, to * VALUE_HEAD + column, total > 0.0 ? whole / total : total);
    if (column == 0) logsumexp.at[row] = greatest + precise_log(total);
}
