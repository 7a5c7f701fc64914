// Device memory by address: the number of elements is not known, so kernels check bounds.

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    FloatIn { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    FloatOut { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    IntIn { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    IntOut { int at[]; };
