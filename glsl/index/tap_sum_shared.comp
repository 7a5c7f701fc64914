// Weighted sums of elements by index, which a workgroup holds: out[n, c, p] is the sum
// over t of weights[n, t, p] * x[n, c, indices[n, t, p]]
// grid    one workgroup for PLANES words of channels of an image and a part of the places,
//         linear over (batch, groups of channels, parts)
// in      x (batch, channels, size) T; indices (batch, TAPS, places) int32, of which a
//         negative one names nothing; weights (batch, TAPS, places) ACC; part: places of
//         a workgroup, of which there are `parts`; magic and shift divide by parts and
//         groups
// out     out_ (batch, channels, places) T
// consts  TAPS; PLANES; CELLS: at least PLANES * size
// source  as index/tap_sum.comp: neighbours that load elements far apart take turns, and
//         in shared memory few of them
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
    In x;
    IntIn indices;
    AccIn weights;
    Out out_;
    uint batches;
    uint channels;
    uint size;
    uint places;
    uint groups;
    uint parts;
    uint part;
    uint magic[2];
    uint shift[2];
} args;

// A word has an element of one channel, or of two neighbours.
#if BYTES == 2
const uint LANES = 2;
#else
const uint LANES = 1;
#endif

shared uint cells[CELLS];

ACC element_of(uint word, uint lane) {
#if BYTES == 2
    return DECODE(word >> 16 * lane & 0xffffu);
#else
    return uintBitsToFloat(word);
#endif
}

void main() {
    In x = args.x;
    AccIn weights = args.weights;
    IntIn indices = args.indices;
    Out out_ = args.out_;
    uint channels = args.channels, size = args.size, places = args.places;
    uint block = divide(linear_workgroup(), args.magic[0], args.shift[0]);
    uint begin = (linear_workgroup() - block * args.parts) * args.part;
    uint batch = divide(block, args.magic[1], args.shift[1]);
    uint first = (block - batch * args.groups) * PLANES * LANES;
    if (batch >= args.batches) return;
    uint end = min(begin + args.part, places), image = batch * channels;

    [[unroll]] for (uint plane = 0; plane < PLANES; ++plane) {
        uint low = image + min(first + plane * LANES, channels - 1);
        uint high = image + min(first + plane * LANES + LANES - 1, channels - 1);
        for (uint i = gl_LocalInvocationIndex; i < size; i += gl_WorkGroupSize.x) {
#if BYTES == 2
            uint upper = uint(x.at[high * size + i]);
            cells[plane * size + i] = uint(x.at[low * size + i]) | upper << 16;
#else
            cells[plane * size + i] = floatBitsToUint(x.at[low * size + i]);
#endif
        }
    }
    barrier();
    uint step = gl_WorkGroupSize.x;
    for (uint place = begin + gl_LocalInvocationIndex; place < end; place += step) {
        int named[TAPS];
        ACC share[TAPS];
        [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
            uint at = (batch * TAPS + tap) * places + place;
            named[tap] = indices.at[at];
            share[tap] = weights.at[at];
        }
        [[unroll]] for (uint plane = 0; plane < PLANES; ++plane) {
            ACC sums[LANES];
            [[unroll]] for (uint lane = 0; lane < LANES; ++lane) sums[lane] = ACC(0);
            [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
                uint word = cells[plane * size + uint(max(named[tap], 0))];
                [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
                    ACC value = element_of(word, lane);
                    ACC more = multiply_add(share[tap], value, sums[lane]);
                    sums[lane] = named[tap] < 0 ? sums[lane] : more;
                }
            }
            [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
                uint channel = first + plane * LANES + lane;
                if (channel < channels)
                    store(out_, (image + channel) * places + place, sums[lane]);
            }
        }
    }
}
