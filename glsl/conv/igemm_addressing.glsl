// Implicit GEMM addressing: the right operand is gathered from images by pixel and tap
//
// The images are padded NHWC, in vectors of channels (conv/nchw_to_nhwc). The operand
// has a line for each output pixel and, along it, a vector for each filter tap and each
// vector of channels. Lines are columns of the GEMM where B_ALONG_K, else its K. Past
// the end the last line, or vector, is read again; the left operand is zero there, or
// nothing is stored.
//
// Of several groups a bundle's channels are the K of its rows, whose filters are zero
// for channels of other groups; a tile is of one bundle.
//
// Results are planes of volumes, if they are: see conv/volume.glsl. With DEEP so are the
// images, each a volume of padded planes, and windows have taps along depth too. With
// PLANES_FIRST they are the outermost of K, and VOLUMES of volumes have their first planes
// of results side by side, then their second ones: most tiles are of planes of one depth,
// and those that begin or end a volume take only the planes that are in it.
//
// Of `push`, b_stride counts output pixels, and a_batch the results of a split-K slice.

#include "conv/volume.glsl"

// Geometry of output pixels, then of filter taps; distances in vectors.
layout(constant_id = 20) const uint PLANE = 1;  // output pixels of an image
layout(constant_id = 21) const uint ACROSS = 1;  // output pixels of a line
layout(constant_id = 22) const uint IMAGE = 1;
layout(constant_id = 23) const uint LINE = 1;
layout(constant_id = 24) const uint PLACE = 1;
layout(constant_id = 25) const uint CHANNEL_VECTORS = 1;  // at a tap, of all planes
layout(constant_id = 26) const uint TAPS = 1;
layout(constant_id = 27) const uint TAPS_ACROSS = 1;
layout(constant_id = 28) const uint TAP_LINE = 1;
layout(constant_id = 29) const uint TAP = 1;

// Result layout, and its sizes.
const uint IMAGES = 0;  // (images, rows, PLANE), or planes of volumes
const uint FILTERS = 1;  // (splits, rows, columns), for conv/wgrad_reduce
const uint PHASES = 2;  // (images, CHANNELS, HEIGHT, WIDTH), rows are stride phases
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

// Windows along depth: their number in a volume, 0 without; distances in vectors, of
// volumes, of neighbouring windows' planes and of taps; vectors of a plane's pixel.
layout(constant_id = 42) const uint DEEP = 0;
layout(constant_id = 43) const uint VOLUME = 1;
layout(constant_id = 44) const uint WINDOW_PLANE = 1;
layout(constant_id = 45) const uint TAP_PLANE = 1;
layout(constant_id = 46) const uint PLANE_VECTORS = 1;
layout(constant_id = 47) const uint PLANES_FIRST = 0;
layout(constant_id = 51) const uint VOLUMES = 1;

// Of PLANES_FIRST with all of K: the volume's own planes, 0 where K is no range of them,
// those in front of the first window's first, planes between windows and between taps.
layout(constant_id = 52) const uint OWN_PLANES = 0;
layout(constant_id = 53) const uint FRONT = 0;
layout(constant_id = 54) const uint DEEP_STEP = 1;
layout(constant_id = 55) const uint DEEP_GAP = 1;

// Rows of PHASES are (phases, CHANNELS); or, where results are stored from shared memory,
// (phases down, CHANNELS, phases across): rows next to each other then have pixels next
// to each other. It is 1, or PHASES_ACROSS.
layout(constant_id = 56) const uint PHASES_TOGETHER = 1;

// Planes of results, if they are some of a volume's; 0: all. They are RESULT_STEP apart.
layout(constant_id = 49) const uint RESULT_PLANES = 0;
layout(constant_id = 50) const uint RESULT_STEP = 1;
const uint RESULT_CHANNEL = RESULT_PLANES != 0 ? RESULT_PLANES : PLANES;

// Number of the plane of results that is the first of an image's channels. That of the
// next channel is RESULT_CHANNEL on.
uint first_result(uint image, uint channels) {
    if (RESULT_PLANES == 0) return first_plane(image, channels);
    uint volume = image / PLANES;
    return volume * channels * RESULT_PLANES + (image - volume * PLANES) * RESULT_STEP;
}

// Channel, phase down and phase across of a row of PHASES.
uvec3 phase_of(uint row) {
    uint at = row / PHASES_TOGETHER, phase = at / CHANNELS, channel = at - phase * CHANNELS;
    if (PHASES_TOGETHER > 1) return uvec3(channel, phase, row % PHASES_TOGETHER);
    return uvec3(channel, phase / PHASES_ACROSS, phase % PHASES_ACROSS);
}

// Elements in front of K that are zeros in the filters of `rows` rows, in whole units: a
// stride phase has the last taps of a window, all, some or none.
uint leading_zeros(uint first_row, uint rows, uint unit) {
    if (FILTER_LINES == 0 || push.total <= unit) return 0;
    uint last_row = min(first_row + rows, push.m) - 1, zeros = push.total - unit;
    const uint OF_PHASE = CHANNELS * PHASES_TOGETHER;
    for (uint phase = first_row / OF_PHASE; phase <= last_row / OF_PHASE; ++phase) {
        // Of those together the first has the most taps.
        uvec3 own = phase_of(phase * OF_PHASE);
        uint down = own.y, across = own.z;
        uint lines = (FILTER_LINES + PHASES_DOWN - 1 - down) / PHASES_DOWN;
        uint columns = (FILTER_COLUMNS + PHASES_ACROSS - 1 - across) / PHASES_ACROSS;
        uint taps = TAPS - lines * TAPS_ACROSS + TAPS_ACROSS - columns;
        if (lines == 0 || columns == 0) taps = TAPS;
        zeros = min(zeros, taps * CHANNEL_VECTORS * WIDTH);
    }
    return zeros / unit * unit;
}

// Image of a number of one: a volume's planes are neighbours.
uint image_of(uint number) {
    if (VOLUMES == 1) return number;
    uint block = number / (DEEP * VOLUMES);
    uint rest = number - block * (DEEP * VOLUMES);
    uint plane = rest / VOLUMES;
    return (block * VOLUMES + (rest - plane * VOLUMES)) * DEEP + plane;
}

// Elements in front of K and behind it that are of planes outside of the volumes, for all
// results of a tile, in whole units.
uvec2 planes_outside(uint first_column, uint columns, uint unit) {
    if (OWN_PLANES == 0 || push.total <= unit) return uvec2(0);
    uint last_column = min(first_column + columns, push.n) - 1;
    uint first = first_column / PLANE, last = last_column / PLANE;
    bool together = first / (max(DEEP, 1) * VOLUMES) == last / (max(DEEP, 1) * VOLUMES);
    int low = together ? int(first / VOLUMES % max(DEEP, 1)) : 0;
    int high = together ? int(last / VOLUMES % max(DEEP, 1)) : int(DEEP) - 1;
    int per_plane = int(TAPS * PLANE_VECTORS * WIDTH);
    int most = int(CHANNEL_VECTORS / PLANE_VECTORS) - 1;
    int step = int(DEEP_STEP), gap = int(DEEP_GAP), front = int(FRONT);
    int from = max(front - high * step + gap - 1, 0) / gap;
    int to = max(front + int(OWN_PLANES) - 1 - low * step, 0) / gap;
    from = min(from, most);
    to = clamp(to, from, most);
    uint left = push.total - unit;
    uint before = min(uint(from * per_plane), left) / unit * unit;
    uint end = uint((to + 1) * per_plane);
    uint after = min(push.total - min(end, push.total), left - before) / unit * unit;
    return uvec2(before, after);
}

// Offset of the channels that rows from `row` on are made of.
uint bundle_offset(uint row) {
    if (BUNDLE_ROWS == 0) return 0;
    return (RESULTS == PHASES ? phase_of(row).x : row) / BUNDLE_ROWS * BUNDLE;
}

// Offset of the first tap of an output pixel.
uint window_offset(uint number) {
    uint place = min(number, push.b_stride - 1);
    uint image = place / PLANE;
    uint rest = place - image * PLANE;
    image = image_of(image);
    uint line = rest / ACROSS;
    uint first = image * IMAGE;
    if (DEEP != 0) {
        uint volume = image / max(DEEP, 1);
        first = volume * VOLUME + (image - volume * DEEP) * WINDOW_PLANE;
    }
    return first + line * LINE + (rest - line * ACROSS) * PLACE;
}

// Offset of a vector of a line from its first tap.
uint tap_vector_offset(uint number) {
    uint vector = min(number, TAPS * CHANNEL_VECTORS - 1), plane = 0;
    if (PLANES_FIRST != 0) {
        plane = vector / (TAPS * PLANE_VECTORS);
        vector -= plane * (TAPS * PLANE_VECTORS);
    }
    const uint AT_TAP = PLANES_FIRST != 0 ? PLANE_VECTORS : CHANNEL_VECTORS;
    uint tap = vector / AT_TAP;
    uint own = vector - tap * AT_TAP;
    if (DEEP != 0 && PLANES_FIRST == 0) {
        plane = own / PLANE_VECTORS;
        own -= plane * PLANE_VECTORS;
    }
    uint line = tap / TAPS_ACROSS;
    return plane * TAP_PLANE + line * TAP_LINE + (tap - line * TAPS_ACROSS) * TAP
        + own;
}

// Where results of a column begin: of PHASES their first plane, and the pixel (y, x) of
// the first phase, out of bounds where stride phases reach past the edge; of others the
// element of the first row.
uvec3 first_of(uint column) {
    if (RESULTS == FILTERS) return uvec3(column, 0, 0);
    uint number = column / PLANE, rest = column - number * PLANE;
    uint image = image_of(number);
    if (RESULTS == IMAGES)
        return uvec3(first_result(image, push.m) * PLANE + rest, 0, 0);
    uint line = rest / ACROSS, across = rest - line * ACROSS;
    return uvec3(first_result(image, CHANNELS), line * PHASES_DOWN - BEFORE_H,
        across * PHASES_ACROSS - BEFORE_W);
}

bool is_inside(uvec3 first, uint row) {
    if (RESULTS != PHASES) return row < push.m;
    uvec3 phase = phase_of(row);
    return row < push.m && first.y + phase.y < HEIGHT && first.z + phase.z < WIDTH_OUT;
}

// Element of a row's result in a column that begins there.
uint at_row(uvec3 first, uint row) {
    uint part = gl_WorkGroupID.z * push.a_batch;
    if (RESULTS == FILTERS) return part + row * push.n + first.x;
    if (RESULTS == IMAGES) return part + row * (RESULT_CHANNEL * PLANE) + first.x;
    uvec3 phase = phase_of(row);
    uint plane = first.x + phase.x * RESULT_CHANNEL;
    return part + (plane * HEIGHT + first.y + phase.y) * WIDTH_OUT + first.z + phase.z;
}

#ifdef BIAS
// What is added to each row of the product; the first of split-K's slices has it.
float bias_of(uint row) {
    if (gl_WorkGroupID.z != 0) return 0;
    return load(push.bias, RESULTS == PHASES ? phase_of(row).x : row);
}
#endif

bool is_result(uint row, uint column) {
    return column < push.n && is_inside(first_of(column), row);
}

uint result_at(uint row, uint column) { return at_row(first_of(column), row); }
