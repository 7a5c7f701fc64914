// Window geometry of two-dimensional convolution and pooling

layout(constant_id = 10) const uint KERNEL_H = 3;
layout(constant_id = 11) const uint KERNEL_W = 3;
layout(constant_id = 12) const uint STRIDE_H = 1;
layout(constant_id = 13) const uint STRIDE_W = 1;
layout(constant_id = 14) const uint PADDING_H = 0;
layout(constant_id = 15) const uint PADDING_W = 0;
layout(constant_id = 16) const uint DILATION_H = 1;
layout(constant_id = 17) const uint DILATION_W = 1;

const uint TAPS = KERNEL_H * KERNEL_W;
const ivec2 STRIDE = ivec2(STRIDE_H, STRIDE_W);
const ivec2 PADDING = ivec2(PADDING_H, PADDING_W);
const ivec2 DILATION = ivec2(DILATION_H, DILATION_W);

// Offset of filter tap `index` from the corner of its window.
ivec2 tap_offset(uint index) {
    return ivec2(index / KERNEL_W, index % KERNEL_W) * DILATION;
}
