// Weighted sums of elements by index: out[n, c, p] is the sum over t of
// weights[n, t, p] * x[n, c, indices[n, t, p]]
// grid    one invocation per place and CHANNELS channels, linear
// in      x (batch, channels, size) T; indices (batch, TAPS, places) int32, of which a
//         negative one names nothing; weights (batch, TAPS, places)
//         ACC
// out     out_ (batch, channels, places) T
// consts  TAPS; CHANNELS: of an invocation, which reads indices and weights once
// source  grid_sample of PyTorch; sums in the order of taps
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint TAPS = 1;
layout(constant_id = 4) const uint CHANNELS = 1;

layout(push_constant, std430) uniform Push {
    In x;
    IntIn indices;
    AccIn weights;
    Out out_;
    uint count;
    uint channels;
    uint size;
    uint places;
} args;

void main() {
    uint invocation = linear_invocation();
    In x = args.x;
    AccIn weights = args.weights;
    IntIn indices = args.indices;
    Out out_ = args.out_;
    uint channels = args.channels, size = args.size, places = args.places;
    if (invocation >= args.count) return;
    uint chunks = (channels - 1) / CHANNELS + 1;
    uint line = invocation / places, place = invocation - line * places;
    uint batch = line / chunks, first = (line - batch * chunks) * CHANNELS;
    uint end = min(first + CHANNELS, channels);
    int named[TAPS];
    ACC share[TAPS];
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
        uint at = (batch * TAPS + tap) * places + place;
        named[tap] = indices.at[at];
        share[tap] = weights.at[at];
    }
    for (uint channel = first; channel < end; ++channel) {
        uint plane = batch * channels + channel, start = plane * size;
        ACC sum = ACC(0);
        [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
            ACC value = load(x, start + uint(max(named[tap], 0)));
            ACC more = multiply_add(share[tap], value, sum);
            sum = named[tap] < 0 ? sum : more;
        }
        store(out_, plane * places + place, sum);
    }
}
