// All steps of a recurrent layer, with weights that stay in registers
// grid    x ROWS of the batch
// in      h0, cells (batch, units), LSTM's: states before all steps; weight (PARTS *
//         units, units); gates (steps, batch, PARTS * units): what the inputs give; bias
//         (PARTS * units), GRU's; on (steps, batch): where it is 0, a sequence has ended
//         and its states stay
// out     out_ (steps, batch, units), LSTM's (steps, batch, 2 * units): hidden states,
//         then cell states
// consts  ROWS, EACH, QUADS, HELD, TOGETHER, ITEMS: see recurrent/persistent_product.glsl
// macros  CELL, MASKED: see recurrent/cell.glsl; BIASED: there is `bias`; SHUFFLES,
//         VECTORS: see recurrent/persistent_product.glsl
// source  Diamos et al., Persistent RNNs, International Conference on Machine Learning
//         48 (2016); for the cells see recurrent/step.comp
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "recurrent/cell.glsl"
#include "recurrent/persistent_product.glsl"

layout(push_constant, std430) uniform Push {
    In h0;
    In weight;
    In gates;
    In bias;
    In cells;
    In on;
    Out out_;
    uint steps;
    uint batch;
    uint units;
} push;

// What inputs give to the gates of a unit in a step, and whether its state stays
struct Given {
    float gates[PARTS];
    bool stays;
};

Given given_of(In gates, In on, uint sequence, uint unit, uint units) {
    Given found;
    [[unroll]] for (uint part = 0; part < PARTS; ++part)
        found.gates[part] = load(gates, (sequence * PARTS + part) * units + unit);
#ifdef MASKED
    found.stays = load(on, sequence) == 0.0;
#else
    found.stays = false;
#endif
    return found;
}

void main() {
    In h0 = push.h0, gates = push.gates, bias = push.bias, cells = push.cells;
    In on = push.on;
    Out out_ = push.out_;
    uint steps = push.steps, batch = push.batch, units = push.units;
    uint first = gl_WorkGroupID.x * ROWS, live = min(ROWS, batch - first);
    hold_weights(ROWS_OF(push.weight), PARTS * units, units);
    clear_states();
    barrier();
    uint row_of[ITEMS], unit_of[ITEMS];
    float state[ITEMS], cell[ITEMS], biases[ITEMS][PARTS];
    Given given[ITEMS];
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint at = gl_LocalInvocationIndex + i * gl_WorkGroupSize.x;
        uint row = row_of[i] = at / units, unit = unit_of[i] = at % units;
        if (row >= live) continue;
        given[i] = given_of(gates, on, first + row, unit, units);
        state[i] = load(h0, (first + row) * units + unit);
#if CELL == LSTM
        cell[i] = load(cells, (first + row) * units + unit);
#endif
#ifdef BIASED
        [[unroll]] for (uint part = 0; part < PARTS; ++part)
            biases[i][part] = load(bias, part * units + unit);
#endif
        set_state(row, unit, state[i]);
    }
    for (uint step = 0; step < steps; ++step) {
        barrier();
        multiply();
        barrier();
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
            uint row = row_of[i], unit = unit_of[i];
            if (row >= live) continue;
            float sum[PARTS];
            [[unroll]] for (uint part = 0; part < PARTS; ++part) {
                sum[part] = product_sum(row, part * units + unit);
#ifdef BIASED
                sum[part] += biases[i][part];
#endif
            }
            bool stays = given[i].stays;
            state[i] = state_after(given[i].gates, sum, state[i], cell[i], stays);
            uint sequence = step * batch + first + row;
            // The next step's loads are in flight during its product.
            if (step + 1u < steps)
                given[i] = given_of(gates, on, sequence + batch, unit, units);
            store(out_, sequence * WIDTH * units + unit, state[i]);
            state[i] = AS_STORED(state[i]);
#if CELL == LSTM
            store(out_, (sequence * WIDTH + 1u) * units + unit, cell[i]);
            cell[i] = AS_STORED(cell[i]);
#endif
            set_state(row, unit, state[i]);
        }
    }
}
