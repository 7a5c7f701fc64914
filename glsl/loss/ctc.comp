// Logarithms of the forward or backward variables of connectionist temporal
// classification: the probability of all paths that begin, or end, in a state at a step,
// with what the state emits there
// grid    one workgroup per sequence, linear; invocations take states in turn
// in      emissions (sequences, steps, states) log-probabilities; skips (sequences,
//         states) int32, not 0 where the state before the last leads to a state too;
//         lengths, counts (sequences) int32: steps and states of each sequence
// out     out_ (sequences, steps, states), -inf beyond these; steps first to before last
//         of the order that they are computed in, on top of what earlier dispatches wrote
// consts  REVERSE: 1 for backward variables
// source  Graves et al., Connectionist Temporal Classification, 2006, equations 6 to 11
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
layout(constant_id = 3) const uint REVERSE = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Emissions { float at[]; };
// Written and read by the invocations of one workgroup.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent restrict
    buffer Variables { float at[]; };

layout(push_constant, std430) uniform Push {
    Emissions emissions;
    IntIn skips;
    IntIn lengths;
    IntIn counts;
    Variables out_;
    uint sequences;
    uint steps;
    uint states;
    uint first;
    uint last;
} push;

#define NOTHING uintBitsToFloat(0xff800000u)

void main() {
    uint sequence = linear_workgroup();
    if (sequence >= push.sequences) return;
    Variables out_ = push.out_;
    uint states = push.states;
    uint length = uint(push.lengths.at[sequence]);
    int count = push.counts.at[sequence];
    int sign = REVERSE == 1 ? 1 : -1;
    uint start = REVERSE == 1 ? length - 1 : 0;
    for (uint number = push.first; number < push.last; ++number) {
        uint step = REVERSE == 1 ? push.steps - 1 - number : number;
        uint row = (sequence * push.steps + step) * states;
        uint before = row + uint(sign * int(states));
        for (uint k = gl_LocalInvocationIndex; k < states; k += gl_WorkGroupSize.x) {
            int state = int(k);
            float total = NOTHING;
            if (step < length && state < count) {
                int place = REVERSE == 1 ? count - 1 - state : state;
                if (step == start) {
                    total = place < 2 ? 0.0 : NOTHING;
                } else {
                    float own = out_.at[before + k];
                    float near = place > 0 ? out_.at[before + k + sign] : NOTHING;
                    uint over = sequence * states + (REVERSE == 1 ? k + 2 : k);
                    bool skips = place > 1 && push.skips.at[over] != 0;
                    float far = skips ? out_.at[before + k + 2 * sign] : NOTHING;
                    float greatest = max(max(own, near), far);
                    if (greatest != NOTHING) {
                        float sum = exp(own - greatest) + exp(near - greatest)
                            + exp(far - greatest);
                        total = greatest + log(sum);
                    }
                }
                total += push.emissions.at[row + k];
            }
            out_.at[row + k] = total;
        }
        memoryBarrierBuffer();
        barrier();
    }
}
