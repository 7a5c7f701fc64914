// Which matrix of a stack a row is multiplied with, by its number in memory
#include "lib/index_record.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Numbers { int at[]; };

// The number of a row, or the last one where there is no such matrix, which is reported.
uint matrix_number(Numbers numbers, uint row, uint matrices, IndexSlot error) {
    int number = numbers.at[row];
    if (uint(number) >= matrices) error.at[0] = reported(number, number >> 31);
    return min(uint(number), matrices - 1);
}
