// Row indices as 32-bit words; negative ones count from the end

layout(constant_id = 5) const uint INDEX_WORDS = 1;
layout(constant_id = 6) const uint INDEX_SIGNED = 1;

const int NO_ROW = -2147483647 - 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Indices { int at[]; };

// The row that an index names, or NO_ROW for anything outside of them. Two words are a
// 64-bit integer in little-endian order, whose upper word must extend the lower.
int read_row(Indices indices, uint entry, uint rows) {
    int index = indices.at[entry * INDEX_WORDS];
    int upper = INDEX_SIGNED != 0 ? index >> 31 : 0;
    bool fits = INDEX_WORDS == 1 || indices.at[entry * INDEX_WORDS + 1] == upper;
    int row = INDEX_SIGNED != 0 && index < 0 ? index + int(rows) : index;
    return fits && row >= 0 && uint(row) < rows ? row : NO_ROW;
}
