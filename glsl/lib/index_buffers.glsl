// Integer buffers of labels and indices; kernels check bounds

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    IntIn { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    IntOut { int at[]; };

// An int64 that is not below 0, at most `most`.
uint bounded(IntIn x, uint index, uint most) {
    int lower = x.at[2 * index], upper = x.at[2 * index + 1];
    return upper < 0 ? 0 : upper > 0 ? most : min(uint(lower), most);
}
