// A step of a recurrent layer: the product with the states before it, and its cells
// grid    x UNITS of the units, y ROWS of the batch
// in      before (batch, units), cells (batch, units), LSTM's, with rows `pitch` apart:
//         states; weight (PARTS * units, units); gates (batch, PARTS * units): what the
//         inputs give; bias (PARTS * units), GRU's; on (batch): where it is 0, a sequence
//         has ended and its states stay
// out     out_ (batch, units), LSTM's (batch, 2 * units): hidden states, then cell states
// consts  those of recurrent/state_product.glsl, or recurrent/coopmat_product.glsl
// macros  CELL: a name of recurrent/cell.glsl; MASKED: there is `on`; BIASED: there is `bias`;
//         VECTORS: rows begin and end with vec4; COOPMAT: on tensor cores
// source  Elman, Cognitive Science 14 (1990); Cho et al., arXiv:1406.1078; Hochreiter and
//         Schmidhuber, Neural Computation 9 (1997)
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "recurrent/cell.glsl"
#ifdef COOPMAT
#include "recurrent/coopmat_product.glsl"
#else
#include "recurrent/state_product.glsl"
#endif

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
        uint sequence = first_row(batch) + row;
        uint own = first_unit(units) + unit;
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
        float old = 0.0, cell = 0.0;
#ifdef READS_STATE
        old = load(before, sequence * pitch + own);
#endif
#if CELL == LSTM
        cell = load(cells, sequence * pitch + own);
#endif
        float state = state_after(given, sum, old, cell, stays);
        store(out_, sequence * WIDTH * units + own, state);
#if CELL == LSTM
        store(out_, (sequence * WIDTH + 1u) * units + own, cell);
#endif
    }
}
