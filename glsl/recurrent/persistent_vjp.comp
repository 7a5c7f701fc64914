// All steps back through a recurrent layer, with weights that stay in registers
// grid    x ROWS of the batch
// in      weight (units, OUTPUTS * units): transposed; grad (steps, batch, units), of an
//         LSTM's states and cells (steps, batch, 2 * units); kept (steps, batch, 1 or
//         units): what a step leaves of the states as they were, with rows `kept_pitch`
//         apart and units `kept_step`; by_state (steps, batch, OUTPUTS, units):
//         derivatives of the gates' functions. Of an LSTM also by_cell (steps, batch,
//         OUTPUTS, units), through (steps, batch, units), from the outputs to the cells,
//         and forget (steps, batch, units), from one cell to the next
// out     hidden_out (steps, batch, units), gates_out (steps, batch, OUTPUTS * units);
//         cells_out (batch, units) of ACC: gradients of the cells before all steps
// consts  ROWS, EACH, QUADS, HELD, TOGETHER, ITEMS: see recurrent/persistent_product.glsl
// macros  OUTPUTS, CELLS, KEPT: see recurrent/cell_vjp.glsl; SHUFFLES, VECTORS: see
//         recurrent/persistent_product.glsl
// source  Diamos et al., Persistent RNNs, International Conference on Machine Learning
//         48 (2016); Werbos, Proceedings of the IEEE 78 (1990)
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "recurrent/cell_vjp.glsl"
#include "recurrent/persistent_product.glsl"

layout(push_constant, std430) uniform Push {
    In weight;
    In grad;
    In kept;
    In by_state;
    Out hidden_out;
    Out gates_out;
#ifdef CELLS
    In by_cell;
    In through;
    In forget;
    AccOut cells_out;
#endif
    uint kept_pitch;
    uint kept_step;
    uint steps;
    uint batch;
    uint units;
} push;

void main() {
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
    AccOut cells_out = push.cells_out;
#endif
    uint steps = push.steps, batch = push.batch, units = push.units;
    uint first = gl_WorkGroupID.x * ROWS, live = min(ROWS, batch - first);
    hold_weights(ROWS_OF(push.weight), units, OUTPUTS * units);
    clear_states();
    uint row_of[ITEMS], unit_of[ITEMS];
    float hidden[ITEMS], cell[ITEMS];
    Factors factors[ITEMS];
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint at = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        uint row = row_of[i] = at / units, unit = unit_of[i] = at % units;
        hidden[i] = cell[i] = 0.0;
        if (row >= live) continue;
        uint sequence = (steps - 1u) * batch + first + row;
        factors[i] = factors_of(sources, sequence, NO_ROW, unit, units);
    }
    for (uint step = steps; step-- > 0u;) {
        barrier();
        if (step + 1u < steps) multiply();
        barrier();
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint row = row_of[i], unit = unit_of[i], sequence = step * batch + first + row;
            if (row >= live) continue;
            float sum = step + 1u < steps ? product_sum(row, unit) : 0.0;
            float of_state = state_gradient(factors[i], sum, hidden[i]), of_cell = 0.0;
#ifdef CELLS
            of_cell = factors[i].grad_cell + cell[i];
            cell[i] = cell_gradient(factors[i], of_state, of_cell);
#endif
            float of_gates[OUTPUTS];
            [[unroll]] for (uint part = 0; part < OUTPUTS; ++part)
                of_gates[part] = gate_gradient(factors[i], part, of_state, of_cell);
            // The loads of the step before are in flight during its product.
            if (step > 0u)
                factors[i] = factors_of(sources, sequence - batch, sequence, unit, units);
            store(hidden_out, sequence * units + unit, of_state);
            hidden[i] = AS_STORED(of_state);
            [[unroll]] for (uint part = 0; part < OUTPUTS; ++part) {
                uint gate = part * units + unit;
                store(gates_out, sequence * OUTPUTS * units + gate, of_gates[part]);
                set_state(row, gate, AS_STORED(of_gates[part]));
            }
        }
    }
#ifdef CELLS
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        if (row_of[i] < live)
            cells_out.at[(first + row_of[i]) * units + unit_of[i]] = cell[i];
#endif
}
