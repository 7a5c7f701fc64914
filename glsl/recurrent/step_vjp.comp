// A step back through a recurrent layer: gradients of its states and of its gates
// grid    x UNITS of the units, y ROWS of the batch
// in      of_gates (batch, depth): gradients of the gates of the step after this one;
//         weight (units, depth): transposed; grad (batch, units), of an
//         LSTM's states and cells (batch, 2 * units): of this step's results; kept (batch, 1 or units): what the step after
//         this one leaves of a state as it was, with rows `kept_pitch` apart and units
//         `kept_step`; hidden (batch, units): gradients of the states after that step;
//         by_state (batch, OUTPUTS, units): derivatives of the gates' functions. Of an LSTM
//         also by_cell (batch, OUTPUTS, units), through (batch, units), from the outputs to
//         the cells, forget (batch, units), from one cell to the next, and cells (batch,
//         units) of ACC. No step is after this one if depth is 0.
// out     hidden_out (batch, units), gates_out (batch, OUTPUTS * units); cells_out (batch,
//         units) of ACC: gradients of the cells before this step
// consts  those of recurrent/state_product.glsl, or recurrent/coopmat_product.glsl
// macros  OUTPUTS, CELLS, KEPT: see recurrent/cell_vjp.glsl; VECTORS: rows begin and end
//         with vec4; COOPMAT: on tensor cores
// source  Werbos, Proceedings of the IEEE 78 (1990): back-propagation through time
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

#include "recurrent/cell_vjp.glsl"
#define PARTS 1
#ifdef COOPMAT
#include "recurrent/coopmat_product.glsl"
#else
#include "recurrent/state_product.glsl"
#endif

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
    uint kept_pitch;
    uint kept_step;
    uint batch;
    uint units;
    uint depth;
} push;

void main() {
    In hidden = push.hidden;
    Out hidden_out = push.hidden_out, gates_out = push.gates_out;
    Sources sources;
    sources.grad = push.grad;
    sources.kept = push.kept;
    sources.by_state = push.by_state;
    sources.kept_pitch = push.kept_pitch;
    sources.kept_step = push.kept_step;
#ifdef CELLS
    sources.by_cell = push.by_cell;
    sources.through = push.through;
    sources.forget = push.forget;
    AccIn cells = push.cells;
    AccOut cells_out = push.cells_out;
#endif
    uint batch = push.batch, units = push.units, depth = push.depth;
    sum_products(ROWS_OF(push.of_gates), depth, ROWS_OF(push.weight), batch, units, depth);
    for (uint at = gl_LocalInvocationIndex; at < ROWS * UNITS; at += gl_WorkGroupSize.x) {
        uint row = at / UNITS, unit = at % UNITS;
        uint sequence = first_row(batch) + row;
        uint own = first_unit(units) + unit;
        if (sequence >= batch || own >= units) continue;
        uint state = sequence * units + own, after = depth > 0u ? sequence : NO_ROW;
        Factors factors = factors_of(sources, sequence, after, own, units);
        float before = 0.0, of_cell = 0.0;
#ifdef KEPT
        if (depth > 0u) before = load(hidden, state);
#endif
        float of_state = state_gradient(factors, product_sum(row, unit, 0u), before);
        store(hidden_out, state, of_state);
#ifdef CELLS
        of_cell = factors.grad_cell;
        if (depth > 0u) of_cell += cells.at[state];
        cells_out.at[state] = cell_gradient(factors, of_state, of_cell);
#endif
        [[unroll]] for (uint part = 0; part < OUTPUTS; ++part) {
            uint gate = (sequence * OUTPUTS + part) * units + own;
            store(gates_out, gate, gate_gradient(factors, part, of_state, of_cell));
        }
    }
}
