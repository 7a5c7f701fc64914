// A step back through a recurrent layer: gradients of its states and of its gates
// grid    x UNITS of the units, y ROWS of the batch
// in      of_gates (batch, depth): gradients of the gates of the step after this one;
//         weight (units, depth): transposed; grad (batch, units) with rows `grad_pitch`
//         apart: of this step's results; kept (batch, 1 or units): what the step after
//         this one leaves of a state as it was, with rows `kept_pitch` apart and units
//         `kept_step`; hidden (batch, units): gradients of the states after that step;
//         by_state (batch, OUTPUTS, units): derivatives of the gates' functions. Of an LSTM
//         also by_cell (batch, OUTPUTS, units), through (batch, units), from the outputs to
//         the cells, forget (batch, units), from one cell to the next, and cells (batch,
//         units) of ACC. No step is after this one if depth is 0.
// out     hidden_out (batch, units), gates_out (batch, OUTPUTS * units); cells_out (batch,
//         units) of ACC: gradients of the cells before this step
// consts  ROWS, UNITS, SLICES, DEPTH, STAGED: see recurrent/state_product.glsl
// macros  OUTPUTS: gates of a unit; CELLS: it is an LSTM; KEPT: there is `kept`; VECTORS:
//         rows begin and end with vec4
// source  Werbos, Proceedings of the IEEE 78 (1990): back-propagation through time
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

#define PARTS 1
#ifndef OUTPUTS
#define OUTPUTS 1
#endif
#include "recurrent/state_product.glsl"

layout(push_constant, std430) uniform Push {
    In of_gates;
    In weight;
    In grad;
    In kept;
    In hidden;
    In by_state;
    Out hidden_out;
    Out gates_out;
#ifdef CELLS
    In by_cell;
    In through;
    In forget;
    AccIn cells;
    AccOut cells_out;
#endif
    uint grad_pitch;
    uint kept_pitch;
    uint kept_step;
    uint batch;
    uint units;
    uint depth;
} push;

void main() {
    In grad = push.grad, kept = push.kept, hidden = push.hidden;
    In by_state = push.by_state;
    Out hidden_out = push.hidden_out, gates_out = push.gates_out;
#ifdef CELLS
    In by_cell = push.by_cell, through = push.through, forget = push.forget;
    AccIn cells = push.cells;
    AccOut cells_out = push.cells_out;
#endif
    uint grad_pitch = push.grad_pitch, batch = push.batch, units = push.units;
    uint kept_pitch = push.kept_pitch, kept_step = push.kept_step, depth = push.depth;
    sum_products(ROWS_OF(push.of_gates), depth, ROWS_OF(push.weight), batch, units, depth);
    for (uint at = gl_LocalInvocationIndex; at < ROWS * UNITS; at += gl_WorkGroupSize.x) {
        uint row = at / UNITS, unit = at % UNITS;
        uint sequence = gl_WorkGroupID.y * ROWS + row;
        uint own = gl_WorkGroupID.x * UNITS + unit;
        if (sequence >= batch || own >= units) continue;
        uint state = sequence * units + own;
        float of_state = load(grad, sequence * grad_pitch + own);
        of_state += product_sum(row, unit, 0u);
#ifdef KEPT
        if (depth > 0u) {
            uint place = sequence * kept_pitch + own * kept_step;
            float share = load(kept, place);
            if (share != 0.0) of_state = fma(share, load(hidden, state), of_state);
        }
#endif
        store(hidden_out, state, of_state);
#ifdef CELLS
        float of_cell = load(grad, sequence * grad_pitch + units + own);
        if (depth > 0u) of_cell += cells.at[state];
#endif
        [[unroll]] for (uint part = 0; part < OUTPUTS; ++part) {
            uint gate = (sequence * OUTPUTS + part) * units + own;
            float of_gate = of_state * load(by_state, gate);
#ifdef CELLS
            of_gate = fma(of_cell, load(by_cell, gate), of_gate);
#endif
            store(gates_out, gate, of_gate);
        }
#ifdef CELLS
        float passed = fma(of_state, load(through, state), of_cell);
        cells_out.at[state] = passed * load(forget, state);
#endif
    }
}
