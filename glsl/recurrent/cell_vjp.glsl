// Gradients of a step of a recurrent layer for one unit
//
// The includer includes lib/dtype.glsl first. OUTPUTS: gates of a unit; CELLS: it is an
// LSTM; KEPT: steps leave shares of states as they were.
//
//   factors_of(sources, row, after, unit, units)
//                         what a step back reads, of a row of (steps * batch, ...), and
//                         of `kept` of the step after it; NO_ROW if there is none
//   state_gradient(factors, sum, hidden)
//                         from the products with the gates of the step after, and the
//                         gradient of its state
//   gate_gradient(factors, part, of_state, of_cell)
//   cell_gradient(factors, of_state, of_cell)
//                         of the cell before

#ifndef OUTPUTS
#define OUTPUTS 1
#endif
#ifdef CELLS
#define WIDTH 2u
#else
#define WIDTH 1u
#endif
const uint NO_ROW = 0xffffffffu;

struct Sources {
    In grad;
    In kept;
    In by_state;
#ifdef CELLS
    In by_cell;
    In through;
    In forget;
#endif
    uint kept_pitch;
    uint kept_step;
};

struct Factors {
    float grad;
    float share;
    float by_state[OUTPUTS];
#ifdef CELLS
    float grad_cell;
    float by_cell[OUTPUTS];
    float through;
    float forget;
#endif
};

Factors factors_of(Sources sources, uint row, uint after, uint unit, uint units) {
    Factors found;
    found.grad = load(sources.grad, row * WIDTH * units + unit);
    found.share = 0.0;
#ifdef KEPT
    if (after != NO_ROW)
        found.share =
            load(sources.kept, after * sources.kept_pitch + unit * sources.kept_step);
#endif
    [[unroll]] for (uint part = 0; part < OUTPUTS; ++part) {
        uint gate = (row * OUTPUTS + part) * units + unit;
        found.by_state[part] = load(sources.by_state, gate);
#ifdef CELLS
        found.by_cell[part] = load(sources.by_cell, gate);
#endif
    }
#ifdef CELLS
    found.grad_cell = load(sources.grad, (row * WIDTH + 1u) * units + unit);
    found.through = load(sources.through, row * units + unit);
    found.forget = load(sources.forget, row * units + unit);
#endif
    return found;
}

float state_gradient(Factors factors, float sum, float hidden) {
    float of_state = factors.grad + sum;
    // What is not kept may be infinite.
    return factors.share != 0.0 ? fma(factors.share, hidden, of_state) : of_state;
}

float gate_gradient(Factors factors, uint part, float of_state, float of_cell) {
    float of_gate = of_state * factors.by_state[part];
#ifdef CELLS
    of_gate = fma(of_cell, factors.by_cell[part], of_gate);
#endif
    return of_gate;
}

#ifdef CELLS
float cell_gradient(Factors factors, float of_state, float of_cell) {
    return fma(of_state, factors.through, of_cell) * factors.forget;
}
#endif
