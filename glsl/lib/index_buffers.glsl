// Integer buffers of labels and indices; kernels check bounds

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    IntIn { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    IntOut { int at[]; };
