// Gradient of weighted sums by index, which a workgroup holds: out[n, c, s] is the sum of
// weights[n, t, p] * slope[n, c, p] over the (t, p) whose index is s
// grid    one workgroup for PLANES channels of an image, linear over (batch, groups)
// in      slope (batch, channels, places) T; indices (batch, TAPS, places) int32, of which
//         a negative one names nothing; weights (batch, TAPS, places) ACC; magic and shift
//         divide by groups
// out     out_ (batch, channels, size) T
// consts  TAPS; PLANES; CELLS: at least PLANES * size
// source  the gradient of index/tap_sum with respect to its elements; sums are exchanged
//         until no other came between, so that their last bits depend on the order, and
//         rounded once
// lint    atomic-in-loop: in shared memory; a number is exchanged until no other came
//         between
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint TAPS = 1;
layout(constant_id = 4) const uint PLANES = 1;
layout(constant_id = 5) const uint CELLS = 256;

layout(push_constant, std430) uniform Push {
    In slope;
    IntIn indices;
    AccIn weights;
    Out out_;
    uint batches;
    uint channels;
    uint size;
    uint places;
    uint groups;
    uint magic;
    uint shift;
} args;

shared uint cells[CELLS];

void add_to(uint cell, ACC value) {
    uint found = cells[cell], expected;
    do {
        expected = found;
        uint sum = floatBitsToUint(uintBitsToFloat(expected) + value);
        found = atomicCompSwap(cells[cell], expected, sum);
    } while (found != expected);
}

void main() {
    In slope = args.slope;
    AccIn weights = args.weights;
    IntIn indices = args.indices;
    Out out_ = args.out_;
    uint channels = args.channels, size = args.size, places = args.places;
    uint batch = divide(linear_workgroup(), args.magic, args.shift);
    uint first = (linear_workgroup() - batch * args.groups) * PLANES;
    if (batch >= args.batches) return;
    uint planes = min(PLANES, channels - first), image = batch * channels + first;
    uint step = gl_WorkGroupSize.x;
    for (uint i = gl_LocalInvocationIndex; i < planes * size; i += step) cells[i] = 0;
    barrier();
    for (uint place = gl_LocalInvocationIndex; place < places; place += step) {
        ACC factor[PLANES];
        [[unroll]] for (uint plane = 0; plane < PLANES; ++plane)
            factor[plane] =
                load(slope, (image + min(plane, planes - 1)) * places + place);
        [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
            uint at = (batch * TAPS + tap) * places + place;
            int named = indices.at[at];
            ACC share = weights.at[at];
            if (named < 0) continue;
            [[unroll]] for (uint plane = 0; plane < PLANES; ++plane)
                if (plane < planes)
                    add_to(plane * size + uint(named), share * factor[plane]);
        }
    }
    barrier();
    // The planes lie one after the other here and there.
    for (uint i = gl_LocalInvocationIndex; i < planes * size; i += step)
        store(out_, image * size + i, uintBitsToFloat(cells[i]));
}
