// Segment of an image's line: what PIXELS neighbouring windows see of it, in registers
//
// The includer has KERNEL_W, STRIDE_W and DILATION_W of lib/window.glsl. With VECTORS,
// for lines of whole vectors of four, the segment starts with the vector that has its
// first element, the SKEW-th of it; BEFORE_VECTORS of them lie before a line's start.

layout(constant_id = 3) const uint CHANNELS = 1;  // of a register tile
layout(constant_id = 4) const uint PIXELS = 4;
layout(constant_id = 5) const uint BEFORE_H = 0;  // padding, which may be negative
layout(constant_id = 6) const uint BEFORE_W = 0;
layout(constant_id = 7) const uint VECTORS = 0;
layout(constant_id = 8) const uint SKEW = 0;
layout(constant_id = 9) const uint BEFORE_VECTORS = 0;

#if BYTES <= 4
#include "lib/vec4_io.glsl"
#endif

const uint SPAN = (PIXELS - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1;
const uint LOADED = VECTORS != 0 ? (SKEW + SPAN + 3) / 4 * 4 : SPAN;

// A line of `width` elements from `start` on, seen from the `segment`-th window on: the
// element of tap k of window p is the (SKEW + p * STRIDE_W + k * DILATION_W)-th.
#define LOAD_SEGMENT(found, image, start, width, segment)                              \
    {                                                                                  \
        uint ahead = (segment) * PIXELS * STRIDE_W;                                    \
        if (VECTORS != 0) {                                                            \
            LOAD_VECTORS(found, image, start, width, ahead)                            \
        } else {                                                                       \
            [[unroll]] for (uint i = 0; i < LOADED; ++i) {                             \
                uint at = ahead - BEFORE_W + i;                                        \
                ACC value = load(image, at < (width) ? (start) + at : 0);              \
                found[i] = at < (width) ? value : ACC(0);                              \
            }                                                                          \
        }                                                                              \
    }
#if BYTES <= 4
#define LOAD_VECTORS(found, image, start, width, ahead)                                \
    [[unroll]] for (uint i = 0; i < LOADED / 4; ++i) {                                 \
        uint at = ahead / 4 - BEFORE_VECTORS + i;                                      \
        bool inside = at < (width) / 4;                                                \
        ACC4 values = load_quad(QuadsIn(image), inside ? (start) / 4 + at : 0);        \
        [[unroll]] for (uint e = 0; e < 4; ++e)                                        \
            found[min(4 * i + e, LOADED - 1)] = inside ? values[e] : ACC(0);           \
    }
#else
#define LOAD_VECTORS(found, image, start, width, ahead)
#endif
