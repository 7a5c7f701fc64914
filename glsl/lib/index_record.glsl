// Report of an index out of range: one word of the device's status record

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer IndexSlot {
    uint at[];
};

// What is written for an index: it plus 2^31, clamped so that it is not 0. `upper` is
// the high word, and 0 for a 32-bit unsigned index.
uint reported(int lower, int upper) {
    int index = upper == lower >> 31 ? lower : upper < 0 ? -2147483647 : 2147483647;
    return uint(max(index, -2147483647)) ^ 0x80000000u;
}
