// bf16x3: float32 as the sum of two bfloat16, its high and its low half
#include "lib/bfloat16.glsl"

uint high_half(float value) { return to_bfloat16(value); }

// An infinity has no low half.
uint low_half(float value) {
    bool finite = !isinf(value) && !isnan(value);
    return to_bfloat16(finite ? value - from_bfloat16(to_bfloat16(value)) : 0.0);
}
