// Elements of a channel of (batch, channels, inner): one at a time or, with QUADS, four
//
// With QUADS `inner` counts vectors of four, which an inner dimension is a multiple of.

#ifdef QUADS
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/vec4_io.glsl"
#define VALUES ACC4
const uint TOGETHER = 4;
VALUES values_at(In x, uint index) { return load_quad(QuadsIn(uvec2(x)), index); }
ACC total(VALUES values) { return values.x + values.y + values.z + values.w; }
#else
#define VALUES ACC
const uint TOGETHER = 1;
VALUES values_at(In x, uint index) { return load(x, index); }
ACC total(VALUES values) { return values; }
#endif
