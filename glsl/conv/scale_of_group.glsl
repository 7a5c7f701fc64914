// Scales by the largest magnitudes in (groups, SLICES), of conv/largest.comp
#include "lib/float16.glsl"
#include "lib/float16_scale.glsl"

layout(constant_id = 60) const uint SLICES = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Largest { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Exponents { int at[]; };

int exponent_of_group(Largest largest, uint group) {
    uint most = 0;
    for (uint slice = 0; slice < SLICES; ++slice)
        most = max(most, largest.at[group * SLICES + slice]);
    return scale_exponent(most);
}
