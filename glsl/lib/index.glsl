// Index arithmetic in 32 bits, and the workgroup size: LOCAL_X

layout(local_size_x_id = 0) in;

// n / d for every 32-bit n and every d >= 1, without a division. The host supplies
//   shift = (d - 1).bit_length()
//   magic = ((1 << 32) * ((1 << shift) - d)) // d + 1
// Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994.
uint divide(uint n, uint magic, uint shift) {
    uint high, low;
    umulExtended(n, magic, high, low);
    uint first = min(shift, 1u);
    return (high + ((n - high) >> first)) >> (shift - first);
}

// The line of an element of (outer, entries, inner), and the outer part of that;
// `division` has the magic and shift that divide by `inner`, then by `entries`.
uvec2 line_and_outer(uint element, uint division[4]) {
    uint line = divide(element, division[0], division[1]);
    return uvec2(line, divide(line, division[2], division[3]));
}

// The number of this workgroup in a grid that counts along x, then y. For `count`
// workgroups the host takes x = min(count, 65535), y = ceil(count / x); numbers from
// `count` on have no work. z is free for a batch.
uint linear_workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// The number of this invocation, likewise.
uint linear_invocation() {
    return linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
}

// Where the `index`-th element of one channel lies in a contiguous (batch, channels,
// inner) tensor; `division` is the magic and shift that divide by `inner`.
uint channel_offset(
    uint index, uint channel, uint channels, uint inner, uvec2 division) {
    uint image = divide(index, division.x, division.y);
    return (image * channels + channel) * inner + (index - image * inner);
}
