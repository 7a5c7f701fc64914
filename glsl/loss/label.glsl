// Class labels as 32-bit words

#include "lib/index_record.glsl"

layout(constant_id = 9) const uint LABEL_WORDS = 1;

const int BAD_LABEL = -1;
const int IGNORED = -2;

// The label of a row: a column, IGNORED, or BAD_LABEL for anything outside the columns.
// Two words are an int64 in little-endian order; the upper must extend the sign.
int read_label(IntIn labels, uint row, uint columns, int ignore_index) {
    int label = labels.at[row * LABEL_WORDS];
    bool fits = LABEL_WORDS == 1 || labels.at[row * LABEL_WORDS + 1] == label >> 31;
    if (!fits) return BAD_LABEL;
    if (label == ignore_index) return IGNORED;
    return uint(label) < columns ? label : BAD_LABEL;
}

// What is reported of a label that is none of the columns.
uint reported_label(IntIn labels, uint row) {
    int lower = labels.at[row * LABEL_WORDS];
    return reported(lower, LABEL_WORDS == 1 ? lower >> 31 : labels.at[row * 2 + 1]);
}
