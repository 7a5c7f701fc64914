// Attention dropout: factors of the weights, after lib/philox.glsl

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Seed { uint key[2]; };

// Dropout factor of a weight: 0, or the inverse of the probability to keep it.
float kept(uint row, uint key, uvec2 seed, float dropout) {
    uint bits = philox(uvec4(key, row, 0u, 0u), seed).x;
    float draw = float(bits >> 8) * (1.0 / 16777216.0);
    return draw >= dropout ? 1.0 / (1.0 - dropout) : 0.0;
}
