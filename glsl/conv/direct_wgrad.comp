// Direct wgrad of groups with few channels: gradient of conv2d by weight
// grid    one workgroup for CHANNELS filters of a channel of x, linear; z: slice of the
//         segments, each of PIXELS results in a line
// in      x (batch, groups * in_count, in_height, in_width)
//         grad (batch, groups * out_count, out_height, out_width)
// out     out_ (slices, groups * out_count, in_count, KERNEL_H, KERNEL_W): the gradient
//         is its sum over slices; of ACC where there are several
// consts  KERNEL_*, STRIDE_*, DILATION_*; WHOLE: lines of grad are whole segments;
//         GRAD_VECTORS: and whole vectors of four; those of conv/line_segment.glsl
//         and conv/volume.glsl
// source  definition
// lint    scalar-load: a line with its padding, which begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/volume.glsl"
#include "lib/window.glsl"
#include "conv/line_segment.glsl"

layout(constant_id = 18) const uint WHOLE = 0;
layout(constant_id = 19) const uint GRAD_VECTORS = 0;

layout(push_constant, std430) uniform Push {
    In x;
    In grad;
    Out out_;
    uint count;  // workgroups of a slice
    uint in_count;
    uint out_count;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
    uint groups;
    uint share;  // segments of a slice
    uint total;  // segments
    uint segments;  // of a line
    uint segments_magic;
    uint segments_shift;
    uint height_magic;  // divides by out_height
    uint height_shift;
} push;

const uint THREADS = gl_WorkGroupSize.x;
const uint SUMS = CHANNELS * TAPS;
const uint BATCH = 8;  // sums that are added up at a time
const uint SHARERS = THREADS / BATCH;
shared ACC passed[BATCH * THREADS];

void main() {
    uint thread = gl_LocalInvocationIndex;
    uint number = linear_workgroup();
    if (number >= push.count) return;
    uint first = number / push.in_count * CHANNELS;
    uint channel = number % push.in_count;
    uint group = first / push.out_count;
    uint in_plane = push.in_height * push.in_width;
    uint out_plane = push.out_height * push.out_width;

    ACC sum[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) sum[i] = ACC(0);
    uint start = gl_WorkGroupID.z * push.share;
    uint end = min(start + push.share, push.total);
    [[dont_unroll]] for (uint at = start + thread; at < end; at += THREADS) {
        uint row = divide(at, push.segments_magic, push.segments_shift);
        uint segment = at - row * push.segments;
        uint image = divide(row, push.height_magic, push.height_shift);
        uint line = row - image * push.out_height;
        uint column = segment * PIXELS;
        uint out_first = first_plane(image, push.groups * push.out_count);
        uint from = (out_first + first * PLANES) * out_plane + line * push.out_width
            + column;
        ACC grad[CHANNELS][PIXELS];
        [[unroll]] for (uint o = 0; o < CHANNELS; ++o) {
            uint place = from + o * PLANES * out_plane;
#if BYTES <= 4
            if (GRAD_VECTORS != 0) {
                [[unroll]] for (uint p = 0; p < PIXELS / 4; ++p) {
                    ACC4 values = load_quad(QuadsIn(push.grad), place / 4 + p);
                    [[unroll]] for (uint e = 0; e < 4; ++e)
                        grad[o][min(4 * p + e, PIXELS - 1)] = values[e];
                }
                continue;
            }
#endif
            [[unroll]] for (uint p = 0; p < PIXELS; ++p) {
                bool inside = WHOLE != 0 || column + p < push.out_width;
                grad[o][p] = load(push.grad, inside ? place + p : 0);
            }
        }
        uint in_first = first_plane(image, push.groups * push.in_count);
        uint plane = (in_first + (group * push.in_count + channel) * PLANES) * in_plane;
        [[unroll]] for (uint tap_y = 0; tap_y < KERNEL_H; ++tap_y) {
            uint y = line * STRIDE_H + tap_y * DILATION_H - BEFORE_H;
            if (y < push.in_height) {
                ACC seen[LOADED];
                uint line_start = plane + y * push.in_width;
                LOAD_SEGMENT(seen, push.x, line_start, push.in_width, segment)
                // A result that does not exist has no product, for 0 times infinity
                // would be NaN.
                [[unroll]] for (uint p = 0; p < PIXELS; ++p)
                    if (WHOLE != 0 || column + p < push.out_width)
                        [[unroll]] for (uint tap_x = 0; tap_x < KERNEL_W; ++tap_x)
                            [[unroll]] for (uint o = 0; o < CHANNELS; ++o) {
                                uint to = o * TAPS + tap_y * KERNEL_W + tap_x;
                                sum[to] = multiply_add(
                                    seen[SKEW + p * STRIDE_W + tap_x * DILATION_W],
                                    grad[o][p], sum[to]);
                            }
            }
        }
    }

    uint filters = push.groups * push.out_count * push.in_count;
    uint own = thread / SHARERS, share = thread % SHARERS;
    [[unroll]] for (uint base = 0; base < SUMS; base += BATCH) {
        barrier();
        [[unroll]] for (uint b = 0; b < BATCH; ++b)
            if (base + b < SUMS) passed[b * THREADS + thread] = sum[min(base + b, SUMS - 1)];
        barrier();
        ACC total = ACC(0);
        if (base + own < SUMS)
            for (uint i = share; i < THREADS; i += SHARERS)
                total += passed[own * THREADS + i];
        barrier();
        passed[thread] = total;
        barrier();
        uint which = base + own;
        if (share == 0 && which < SUMS) {
            for (uint i = 1; i < SHARERS; ++i) total += passed[thread + i];
            uint filter_ = gl_WorkGroupID.z * filters
                + (first + which / TAPS) * push.in_count + channel;
            store(push.out_, filter_ * TAPS + which % TAPS, total);
        }
    }
}
