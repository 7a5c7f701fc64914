// Products of gradients and elements by index: out[n, t, p] is the sum over c of
// slope[n, c, p] * x[n, c, indices[n, t, p]]
// grid    one invocation per place, linear
// in      x (batch, channels, size) T; slope (batch, channels, places) T; indices (batch,
//         TAPS, places) int32, of which a negative one names nothing
// out     out_ (batch, TAPS, places) ACC
// consts  TAPS
// source  the gradient of index/tap_sum with respect to its weights
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint TAPS = 1;

layout(push_constant, std430) uniform Push {
    In x;
    In slope;
    IntIn indices;
    AccOut out_;
    uint count;
    uint channels;
    uint size;
    uint places;
} args;

void main() {
    uint invocation = linear_invocation();
    In x = args.x, slope = args.slope;
    IntIn indices = args.indices;
    AccOut out_ = args.out_;
    uint channels = args.channels, size = args.size, places = args.places;
    if (invocation >= args.count) return;
    uint batch = invocation / places, place = invocation - batch * places;
    int named[TAPS];
    ACC sums[TAPS];
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
        named[tap] = indices.at[(batch * TAPS + tap) * places + place];
        sums[tap] = ACC(0);
    }
    for (uint channel = 0; channel < channels; ++channel) {
        uint plane = batch * channels + channel, start = plane * size;
        ACC factor = load(slope, plane * places + place);
        [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
            ACC value = load(x, start + uint(max(named[tap], 0)));
            ACC more = multiply_add(factor, value, sums[tap]);
            sums[tap] = named[tap] < 0 ? sums[tap] : more;
        }
    }
    [[unroll]] for (uint tap = 0; tap < TAPS; ++tap)
        out_.at[(batch * TAPS + tap) * places + place] = sums[tap];
}
