// Implicit GEMM addressing: the right operand is gathered from images by pixel and tap
//
// The images are padded NHWC, in vectors of channels (conv/nchw_to_nhwc). The operand
// has a line for each output pixel and, along it, a vector for each filter tap and each
// vector of channels. Lines are columns of the GEMM where B_ALONG_K, else its K. Past
// the end the last line, or vector, is read again; the left operand is zero there, or
// nothing is stored.
//
// With HALVES of 2, bf16x3, each vector is followed by one of low halves. They are vectors
// of a line too where B_ALONG_K, and lines otherwise: the second half of a K step.
//
// Of several groups a bundle's channels are the K of its rows, whose filters are zero
// for channels of other groups; a tile is of one bundle.
//
// Results are planes of volumes, if they are: see conv/volume.glsl.
//
// Of `push`, b_stride counts output pixels, and a_batch the results of a split-K slice.

#include "conv/volume.glsl"

// Geometry of output pixels, then of filter taps; distances in vectors.
layout(constant_id = 20) const uint PLANE = 1;  // output pixels of an image
layout(constant_id = 21) const uint ACROSS = 1;  // output pixels of a line
layout(constant_id = 22) const uint IMAGE = 1;
layout(constant_id = 23) const uint LINE = 1;
layout(constant_id = 24) const uint PLACE = 1;
layout(constant_id = 25) const uint CHANNEL_VECTORS = 1;
layout(constant_id = 26) const uint TAPS = 1;
layout(constant_id = 27) const uint TAPS_ACROSS = 1;
layout(constant_id = 28) const uint TAP_LINE = 1;
layout(constant_id = 29) const uint TAP = 1;

// Result layout, and its sizes.
const uint IMAGES = 0;  // (images, rows, PLANE), or planes of volumes
const uint FILTERS = 1;  // (splits, rows, columns), for conv/wgrad_reduce
const uint PHASES = 2;  // (images, CHANNELS, HEIGHT, WIDTH), rows are (phases, CHANNELS)
layout(constant_id = 30) const uint RESULTS = IMAGES;
layout(constant_id = 31) const uint CHANNELS = 1;
layout(constant_id = 32) const uint HEIGHT = 1;
layout(constant_id = 33) const uint WIDTH_OUT = 1;
layout(constant_id = 34) const uint PHASES_DOWN = 1;
layout(constant_id = 35) const uint PHASES_ACROSS = 1;
layout(constant_id = 36) const uint BEFORE_H = 0;  // pixels before the first phase's own
layout(constant_id = 37) const uint BEFORE_W = 0;
layout(constant_id = 38) const uint BUNDLE_ROWS = 0;  // of a stride phase; 0: all
layout(constant_id = 39) const uint BUNDLE = 0;  // distance of its channels, in vectors

// Of PHASES, lines and columns of the filter: K begins for a tile where its phases have
// taps. 0: all of K is added up.
layout(constant_id = 40) const uint FILTER_LINES = 0;
layout(constant_id = 41) const uint FILTER_COLUMNS = 0;

// Elements in front of K that are zeros in the filters of `rows` rows, in whole units: a
// stride phase has the last taps of a window, all, some or none.
uint leading_zeros(uint first_row, uint rows, uint unit) {
    if (FILTER_LINES == 0 || push.total <= unit) return 0;
    uint last_row = min(first_row + rows, push.m) - 1, zeros = push.total - unit;
    for (uint phase = first_row / CHANNELS; phase <= last_row / CHANNELS; ++phase) {
        uint down = phase / PHASES_ACROSS, across = phase % PHASES_ACROSS;
        uint lines = (FILTER_LINES + PHASES_DOWN - 1 - down) / PHASES_DOWN;
        uint columns = (FILTER_COLUMNS + PHASES_ACROSS - 1 - across) / PHASES_ACROSS;
        uint taps = TAPS - lines * TAPS_ACROSS + TAPS_ACROSS - columns;
        if (lines == 0 || columns == 0) taps = TAPS;
        zeros = min(zeros, taps * CHANNEL_VECTORS * WIDTH);
    }
    return zeros / unit * unit;
}

// Offset of the channels that rows from `row` on are made of.
uint bundle_offset(uint row) {
    if (BUNDLE_ROWS == 0) return 0;
    return (RESULTS == PHASES ? row % CHANNELS : row) / BUNDLE_ROWS * BUNDLE;
}

// Offset of the first tap of an output pixel.
uint window_offset(uint number) {
    uint place = min(number, push.b_stride - 1);
    uint image = place / PLANE;
    uint rest = place - image * PLANE;
    uint line = rest / ACROSS;
    return image * IMAGE + line * LINE + (rest - line * ACROSS) * PLACE;
}

// Offset of a vector of a line from its first tap.
uint tap_vector_offset(uint number) {
    uint vector = min(number, TAPS * CHANNEL_VECTORS - 1);
    uint tap = vector / CHANNEL_VECTORS;
    uint line = tap / TAPS_ACROSS;
    return line * TAP_LINE + (tap - line * TAPS_ACROSS) * TAP
        + (vector - tap * CHANNEL_VECTORS) * (B_ALONG_K != 0 ? 1 : HALVES);
}

// Offset of a line of the K step of `lines` that starts at `start`, if lines are K.
uint k_line_offset(uint start, uint line, uint lines) {
    uint whole = lines / HALVES;
    return window_offset(start / HALVES + line % whole) + line / whole;
}

// Pixel of a result in an image of PHASES: its channel, and its coordinates (y, x), out
// of bounds where stride phases reach past the edge.
uvec3 pixel_of(uint row, uint column) {
    uint phase = row / CHANNELS;
    uint line = column % PLANE / ACROSS;
    uint across = column % PLANE - line * ACROSS;
    return uvec3(row - phase * CHANNELS,
        line * PHASES_DOWN + phase / PHASES_ACROSS - BEFORE_H,
        across * PHASES_ACROSS + phase % PHASES_ACROSS - BEFORE_W);
}

#ifdef BIAS
// What is added to each row of the product; the first of split-K's slices has it.
float bias_of(uint row) {
    if (gl_WorkGroupID.z != 0) return 0;
    return load(push.bias, RESULTS == PHASES ? row % CHANNELS : row);
}
#endif

bool is_result(uint row, uint column) {
    bool inside = row < push.m && column < push.n;
    if (RESULTS != PHASES) return inside;
    uvec3 pixel = pixel_of(row, column);
    return inside && pixel.y < HEIGHT && pixel.z < WIDTH_OUT;
}

uint result_at(uint row, uint column) {
    uint part = gl_WorkGroupID.z * push.a_batch;
    if (RESULTS == FILTERS) return part + row * push.n + column;
    uint image = column / PLANE;
    if (RESULTS == IMAGES)
        return part + (first_result(image, push.m) + row * RESULT_CHANNEL) * PLANE
            + (column - image * PLANE);
    uvec3 pixel = pixel_of(row, column);
    uint plane = first_result(image, CHANNELS) + pixel.x * RESULT_CHANNEL;
    return part + (plane * HEIGHT + pixel.y) * WIDTH_OUT + pixel.z;
}
