// A step of a recurrent layer: the product with the states before it, and its cells
// grid    x UNITS of the units, y ROWS of the batch
// in      before (batch, units), cells (batch, units), LSTM's, with rows `pitch` apart:
//         states; weight (PARTS * units, units); gates (batch, PARTS * units): what the
//         inputs give; bias (PARTS * units), GRU's; on (batch): where it is 0, a sequence
//         has ended and its states stay
// out     out_ (batch, units), LSTM's (batch, 2 * units): hidden states, then cell states
// consts  ROWS, UNITS, SLICES, DEPTH, STAGED: see recurrent/state_product.glsl
// macros  CELL: one of the names below; MASKED: there is `on`; BIASED: there is `bias`;
//         VECTORS: rows begin and end with vec4
// source  Elman, Cognitive Science 14 (1990); Cho et al., arXiv:1406.1078; Hochreiter and
//         Schmidhuber, Neural Computation 9 (1997)
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/math/hyperbolic.glsl"

#define TANH 1
#define RELU 2
#define GRU 3
#define LSTM 4
#ifndef CELL
#define CELL TANH
#endif
#if CELL == LSTM
#define PARTS 4
#elif CELL == GRU
#define PARTS 3
#else
#define PARTS 1
#endif
#include "recurrent/state_product.glsl"

layout(push_constant, std430) uniform Push {
    In before;
    In weight;
    In gates;
    In bias;
    In cells;
    In on;
    Out out_;
    uint pitch;
    uint batch;
    uint units;
} push;

void main() {
    In before = push.before, gates = push.gates, bias = push.bias, cells = push.cells;
    In on = push.on;
    Out out_ = push.out_;
    uint batch = push.batch, units = push.units, pitch = push.pitch;
    sum_products(ROWS_OF(before), pitch, ROWS_OF(push.weight), batch, units, units);
    for (uint at = gl_LocalInvocationIndex; at < ROWS * UNITS; at += gl_WorkGroupSize.x) {
        uint row = at / UNITS, unit = at % UNITS;
        uint sequence = gl_WorkGroupID.y * ROWS + row;
        uint own = gl_WorkGroupID.x * UNITS + unit;
        if (sequence >= batch || own >= units) continue;
        float given[PARTS], sum[PARTS];
        [[unroll]] for (uint part = 0; part < PARTS; ++part) {
            uint gate = part * units + own;
            given[part] = load(gates, sequence * PARTS * units + gate);
            sum[part] = product_sum(row, unit, part);
#ifdef BIASED
            sum[part] += load(bias, gate);
#endif
        }
#ifdef MASKED
        bool stays = load(on, sequence) == 0.0;
#else
        bool stays = false;
#endif
#if CELL == LSTM
        float cell = load(cells, sequence * pitch + own);
        float i = logistic(given[0] + sum[0]), f = logistic(given[1] + sum[1]);
        float g = precise_tanh(given[2] + sum[2]), o = logistic(given[3] + sum[3]);
        float after = fma(f, cell, i * g);
        float state = o * precise_tanh(after);
        if (stays) {
            state = load(before, sequence * pitch + own);
            after = cell;
        }
        store(out_, sequence * 2u * units + own, state);
        store(out_, sequence * 2u * units + units + own, after);
#else
#if CELL == GRU
        float old = load(before, sequence * pitch + own);
        float r = logistic(given[0] + sum[0]), z = logistic(given[1] + sum[1]);
        float n = precise_tanh(fma(r, sum[2], given[2]));
        float state = fma(z, old - n, n);
#elif CELL == RELU
        float state = given[0] + sum[0];
        state = state < 0.0 ? 0.0 : state;
#else
        float state = precise_tanh(given[0] + sum[0]);
#endif
        if (stays) state = load(before, sequence * pitch + own);
        store(out_, sequence * units + own, state);
#endif
    }
}
