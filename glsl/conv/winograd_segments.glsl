// Segments of filters: TAPS of them, the last ones filled up with zeros
// consts  those of conv/winograd.glsl; FILTER: taps of the whole filter, 0 where it is one
//         segment

layout(constant_id = 10) const uint FILTER_DOWN = 0;
layout(constant_id = 11) const uint FILTER_ACROSS = 0;

const uint FILTER_LINES = FILTER_DOWN != 0 ? FILTER_DOWN : TAPS_DOWN;
const uint FILTER_COLUMNS = FILTER_ACROSS != 0 ? FILTER_ACROSS : TAPS_ACROSS;
const uint SEGMENTS_ACROSS = (FILTER_COLUMNS + TAPS_ACROSS - 1) / TAPS_ACROSS;
const uint SEGMENTS = (FILTER_LINES + TAPS_DOWN - 1) / TAPS_DOWN * SEGMENTS_ACROSS;

// Line and segment, as one number, and channel of an element of (lines, SEGMENTS,
// channels); the magic and shift divide by channels. Of one segment lines are not told
// from channels.
uvec2 segment_of(uint number, uint channels, uint magic, uint shift) {
    if (SEGMENTS == 1) return uvec2(0, number);
    uint segment = divide(number, magic, shift);
    return uvec2(segment, number - segment * channels);
}

// First tap of a segment: its line and its column.
uvec2 first_tap(uint segment) {
    uint down = segment / SEGMENTS_ACROSS;
    return uvec2(down * TAPS_DOWN, (segment - down * SEGMENTS_ACROSS) * TAPS_ACROSS);
}
