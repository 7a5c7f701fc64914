// Function of a gate, by the constant GATE of the includer
//
//   gated(g)  GATE_SILU: g / (1 + exp(-g)); GATE_GELU_TANH: the approximation of GELU

#include "lib/math/exponential.glsl"
#include "lib/math/hyperbolic.glsl"

#define GATE_SILU 0
#define GATE_GELU_TANH 1

float gated(float g) {
    if (GATE == GATE_SILU) return g / (1.0 + quick_exp(-g));
    float inner = 0.7978845608 * fma(0.044715 * g * g, g, g);
    return 0.5 * g * (1.0 + precise_tanh(inner));
}

vec4 gated(vec4 g) { return vec4(gated(g.x), gated(g.y), gated(g.z), gated(g.w)); }
