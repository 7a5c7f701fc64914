// Row indices as 32-bit words; negative ones count from the end, if FROM_END

#include "lib/index_record.glsl"

layout(constant_id = 5) const uint INDEX_WORDS = 1;
layout(constant_id = 6) const uint INDEX_SIGNED = 1;
layout(constant_id = 8) const uint FROM_END = 1;

const int NO_ROW = -2147483647 - 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Indices { int at[]; };
#ifdef REFERENCE_CASTS
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    WideIndices { ivec2 at[]; };
#endif

// The row that an index names, or NO_ROW for anything outside of them, which is then
// `reported`. Two words are a 64-bit integer in little-endian order, whose upper word
// must extend the lower.
int read_row(Indices indices, uint entry, uint rows, inout uint bad) {
    ivec2 words;
    if (INDEX_WORDS == 1) words.x = indices.at[entry];
#ifdef REFERENCE_CASTS
    else words = WideIndices(indices).at[entry];
#else
    else words = ivec2(indices.at[2 * entry], indices.at[2 * entry + 1]);
#endif
    int index = words.x;
    int extended = INDEX_SIGNED != 0 ? index >> 31 : 0;
    int upper = INDEX_WORDS == 1 ? extended : words.y;
    bool counts_back = INDEX_SIGNED != 0 && FROM_END != 0 && index < 0;
    int row = counts_back ? index + int(rows) : index;
    bool fits = upper == extended && row >= 0 && uint(row) < rows;
    int sign = INDEX_SIGNED == 0 && upper != 0 ? 1 : upper;
    bad = fits ? bad : reported(index, sign);
    return fits ? row : NO_ROW;
}
