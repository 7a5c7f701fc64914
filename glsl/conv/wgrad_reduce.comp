// Split-K reduction of wgrad: partial sums with channels last to filters
// grid    linear in tiles of LOCAL_X / SHARERS sums
// in      sums (splits, rows, taps, pitch) of ACC: of each tap the channels of a bundle
//         of groups, of which a row has its own, and padding; the last of taps' dimensions
//         is that of DEEP planes
//         With SCALED those of factors with scales, whose exponents are row_exponents
//         (rows) and column_exponents (channels of all groups): see lib/float16_scale.glsl
// out     out_ (rows, channels, taps), the first of taps' dimensions that of planes
// consts  SHARERS: invocations that share a result, each with every SHARERS-th slice; DEEP
// source  definition
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint SHARERS = 4;
layout(constant_id = 4) const uint DEEP = 1;

const uint RESULTS = gl_WorkGroupSize.x / SHARERS;

#ifdef SCALED
#include "lib/float16_scale.glsl"
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Exponents { int at[]; };
#endif

layout(push_constant, std430) uniform Push {
    AccIn sums;
    Out out_;
    uint parts;
    uint rows;
    uint taps;
    uint pitch;
    uint channels;  // of a group
    uint group_rows;
    uint bundle;  // groups
    uint row_magic;  // divides by taps * pitch
    uint row_shift;
    uint pitch_magic;
    uint pitch_shift;
#ifdef SCALED
    Exponents row_exponents;
    Exponents column_exponents;
#endif
} push;

shared ACC shared_sums[gl_WorkGroupSize.x];

void main() {
    uint at = gl_LocalInvocationIndex % RESULTS;
    uint share = gl_LocalInvocationIndex / RESULTS;
    uint number = linear_workgroup() * RESULTS + at;
    uint columns = push.taps * push.pitch;
    uint count = push.rows * columns;
    uint row = divide(number, push.row_magic, push.row_shift);
    uint column = number - row * columns;
    uint tap = divide(column, push.pitch_magic, push.pitch_shift);
    // Two divisions of any numbers would take as long as the sums.
    uint before = 0;
    if (push.bundle > 1) before = row / push.group_rows % push.bundle * push.channels;
    uint channel = column - tap * push.pitch - before;
    bool inside = number < count && channel < push.channels;
    ACC sum = ACC(0);
    for (uint part = share; inside && part < push.parts; part += SHARERS)
        sum += push.sums.at[part * count + number];
    shared_sums[gl_LocalInvocationIndex] = sum;
    barrier();
    if (share != 0 || !inside) return;
    for (uint other = 1; other < SHARERS; ++other)
        sum += shared_sums[other * RESULTS + at];
#ifdef SCALED
    uint of_all = row / push.group_rows * push.channels + channel;
    vec2 scale = power_in_factors(
        push.row_exponents.at[row] + push.column_exponents.at[of_all]);
    sum = sum * scale.x * scale.y;
#endif
    uint to = tap % DEEP * (push.taps / DEEP) + tap / DEEP;
    store(push.out_, (row * push.channels + channel) * push.taps + to, sum);
}
