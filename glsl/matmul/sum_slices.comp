// Sums of split-K slices of a GEMM: out[i] = sum over slices of partial[slice, i]
// grid    one invocation per four results, linear
// in      partial (slices, quads * 4) ACC
// out     out_ (quads * 4) T
// consts  none
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "lib/vec4_io.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Sums { ACC4 at[]; };

layout(push_constant, std430) uniform Push {
    Sums partial;
    Out out_;
    uint quads;
    uint slices;
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;

void main() {
    uint at = linear_invocation(), quads = push.quads, slices = push.slices;
    Sums partial = push.partial;
    if (at >= quads) return;
    ACC4 sum = partial.at[at];
    for (uint slice = 1; slice < slices; ++slice) sum += partial.at[slice * quads + at];
#ifdef EPILOGUE
    epilogue(push.epilogue, at, sum);
#else
    store_quad(QuadsOut(uvec2(push.out_)), at, sum);
#endif
}
