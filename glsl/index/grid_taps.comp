// Taps of places in images or volumes: which elements a sample is made of, and how much
// of each
// grid    one invocation per place, linear
// in      grid (batch, places, DIMS) T, of which -1 and 1 are the edges, the last dimension
//         first; size: of images; magic and shift divide by places; count: all of them
// out     index (batch, TAPS, places) int32, negative where there is no element; weights
//         (batch, TAPS, places) ACC
// consts  DIMS; MODE: 0 bilinear, 1 nearest, 2 bicubic; PADDING: 0 zeros, 1 border,
//         2 reflection; ALIGNED: whether edges are middles of the outermost elements
// source  grid_sample of PyTorch; Keys, Cubic Convolution Interpolation, 1981, a = -3/4
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint DIMS = 2;
layout(constant_id = 4) const uint MODE = 0;
layout(constant_id = 5) const uint PADDING = 0;
layout(constant_id = 6) const uint ALIGNED = 0;

const uint NEAREST = 1, BICUBIC = 2, ZEROS = 0, REFLECTION = 2;
const uint WIDTH = MODE == NEAREST ? 1 : MODE == BICUBIC ? 4 : 2;
const uint TAPS = DIMS == 3 ? WIDTH * WIDTH * WIDTH : WIDTH * WIDTH;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    IndexOut { int at[]; };

layout(push_constant, std430) uniform Push {
    In grid;
    IndexOut index;
    AccOut weights;
    uint count;
    uint places;
    uint size[3];
    uint magic;
    uint shift;
} args;

// To the nearest whole number, ties to even, which is exact from 2^22, or 2^51, on
ACC nearest(ACC place) {
#if ACC_BYTES == 8
    precise ACC shifted = place + 6755399441055744.0lf;
    precise ACC whole = shifted - 6755399441055744.0lf;
    return abs(place) < 2251799813685248.0lf ? whole : place;
#else
    return roundEven(place);
#endif
}

// Mirrored at the middles, or the ends, of the outermost elements
ACC reflected(ACC place, uint size) {
    ACC low = ACC(ALIGNED != 0 ? 0.0 : -0.5), span = ACC(ALIGNED != 0 ? size - 1 : size);
    if (span == ACC(0)) return ACC(0);
    ACC far = abs(place - low), flips = floor(far / span);
    precise ACC rest = far - flips * span;
    bool is_odd = flips - floor(flips * ACC(0.5)) * ACC(2) > ACC(0.5);
    return (is_odd ? span - rest : rest) + low;
}

ACC moved_inside(ACC place, uint size) {
    if (PADDING == ZEROS) return place;
    if (PADDING == REFLECTION) place = reflected(place, size);
    // Nothing is nowhere in these modes: NaN is the first element.
    return place != place ? ACC(0) : clamp(place, ACC(0), ACC(size - 1));
}

ACC near_weight(ACC t) {
    return (t * ACC(1.25) - ACC(2.25)) * t * t + ACC(1);
}

ACC far_weight(ACC t) {
    return ((t * ACC(-0.75) + ACC(3.75)) * t - ACC(6)) * t + ACC(3);
}

// The element at a whole place, -1 if there is none
int element_at(ACC place, uint size) {
    if (MODE == BICUBIC) place = moved_inside(place, size);
    bool within = place >= ACC(0) && place <= ACC(size - 1);
    ACC inside = place != place ? ACC(0) : clamp(place, ACC(0), ACC(size - 1));
    return PADDING == ZEROS && !within ? -1 : int(inside);
}

void taps_along(ACC coordinate, uint size, out int named[WIDTH], out ACC share[WIDTH]) {
    precise ACC place;
    if (ALIGNED != 0) place = (coordinate + ACC(1)) * (ACC(size - 1) * ACC(0.5));
    else place = ((coordinate + ACC(1)) * ACC(size) - ACC(1)) * ACC(0.5);
    if (MODE != BICUBIC) place = moved_inside(place, size);
    ACC first = MODE == NEAREST ? nearest(place) : floor(place), part = place - first;
    ACC rest = ACC(1) - part;
    [[unroll]] for (uint k = 0; k < WIDTH; ++k) {
        ACC before = ACC(MODE == BICUBIC ? 1 : 0);
        named[k] = element_at(first + ACC(k) - before, size);
        share[k] = ACC(1);
        if (MODE == 0) share[k] = k == 0 ? rest : part;
        if (MODE == BICUBIC) {
            ACC inner = k == 1 ? part : rest, outer = k == 0 ? part : rest;
            share[k] = k == 1 || k == 2 ? near_weight(inner)
                                        : far_weight(outer + ACC(1));
        }
    }
}

void main() {
    uint number = linear_invocation();
    In grid = args.grid;
    IndexOut index = args.index;
    AccOut weights = args.weights;
    uint places = args.places;
    if (number >= args.count) return;
    int named[3][WIDTH];
    ACC share[3][WIDTH];
    [[unroll]] for (uint dim = 0; dim < DIMS; ++dim) {
        ACC coordinate = load(grid, number * DIMS + (DIMS - 1 - dim));
        taps_along(coordinate, args.size[dim], named[dim], share[dim]);
    }
    uint batch = divide(number, args.magic, args.shift);
    uint out_place = batch * TAPS * places + (number - batch * places);
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
        uint rest = tap, factor = TAPS / WIDTH;
        int element = 0;
        bool is_none = false;
        ACC weight = ACC(1);
        [[unroll]] for (uint dim = 0; dim < DIMS; ++dim) {
            uint k = rest / factor;
            rest -= k * factor;
            factor = max(factor / WIDTH, 1);
            is_none = is_none || named[dim][k] < 0;
            element = element * int(args.size[dim]) + named[dim][k];
            weight *= share[dim][k];
        }
        index.at[out_place + tap * places] = is_none ? -1 : element;
        weights.at[out_place + tap * places] = weight;
    }
}
