// Starts of runs: whether each element differs from the one before it
// grid    one invocation per four elements, linear
// in      x (count) T
// out     out_ bool, a word for each four, 1 for the first of each run
// consts  none
// source  NaN differs from all, -0.0 not from 0.0
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    IntOut out_;
    uint count;
} args;

void main() {
    uint word = linear_invocation(), first = 4 * word;
    In x = args.x;
    uint count = args.count;
    if (first >= count) return;
    ACC before = load(x, max(first, 1u) - 1);
    uint starts = 0;
    [[unroll]] for (uint lane = 0; lane < 4; ++lane) {
        uint element = first + lane;
        ACC value = load(x, min(element, count - 1));
        bool differs = element == 0 || value != before;
        if (element < count && differs) starts |= 1u << 8 * lane;
        before = value;
    }
    args.out_.at[word] = int(starts);
}
