// Cells of recurrent layers: the states after a step, from products and given gates
//
// The includer includes lib/dtype.glsl first. CELL is one of the names below, with
// MASKED sequences may have ended; READS_STATE: a step takes old states by themselves.
//
//   PARTS, WIDTH          gates of a unit; its results: states, LSTM's cells behind them
//   state_after(given, sums, old, cell, stays)
//                         from what inputs and states give to the gates, the old state,
//                         and an LSTM's cell, which changes; `stays`: both stay

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
#define WIDTH 2u
#elif CELL == GRU
#define PARTS 3
#else
#define PARTS 1
#endif
#ifndef WIDTH
#define WIDTH 1u
#endif
#if CELL == GRU || defined(MASKED)
#define READS_STATE
#endif

float state_after(
    float given[PARTS], float sums[PARTS], float old, inout float cell, bool stays) {
#if CELL == LSTM
    float i = logistic(given[0] + sums[0]), f = logistic(given[1] + sums[1]);
    float g = precise_tanh(given[2] + sums[2]), o = logistic(given[3] + sums[3]);
    float after = fma(f, cell, i * g);
    float state = o * precise_tanh(after);
    cell = stays ? cell : after;
#elif CELL == GRU
    float r = logistic(given[0] + sums[0]), z = logistic(given[1] + sums[1]);
    float n = precise_tanh(fma(r, sums[2], given[2]));
    float state = fma(z, old - n, n);
#elif CELL == RELU
    float state = given[0] + sums[0];
    state = state < 0.0 ? 0.0 : state;
#else
    float state = precise_tanh(given[0] + sums[0]);
#endif
    return stays ? old : state;
}
