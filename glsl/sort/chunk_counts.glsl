// Counts of a digit's values in chunks of a line, each of one invocation

const uint DIGIT_BITS = 8;
const uint BINS = 1u << DIGIT_BITS;

layout(constant_id = 3) const uint CHUNK = 1024;
layout(constant_id = 4) const uint DESCENDING = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Counts {
    uint at[];
};
