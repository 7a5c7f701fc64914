// Images that are planes of volumes: they lie as (batch, channels, PLANES, height, width)

layout(constant_id = 48) const uint PLANES = 1;  // of a volume; 1: plain images
// Those of results, if they are some of a volume's; 0: all. They are RESULT_STEP apart.
layout(constant_id = 49) const uint RESULT_PLANES = 0;
layout(constant_id = 50) const uint RESULT_STEP = 1;
const uint RESULT_CHANNEL = RESULT_PLANES != 0 ? RESULT_PLANES : PLANES;

// Number of the plane that is the first of `channels` channels of an image. That of the
// next channel is PLANES on.
uint first_plane(uint image, uint channels) {
    if (PLANES == 1) return image * channels;
    uint volume = image / PLANES;
    return volume * channels * PLANES + (image - volume * PLANES);
}

// The same of results, whose next channel is RESULT_CHANNEL on.
uint first_result(uint image, uint channels) {
    if (RESULT_PLANES == 0) return first_plane(image, channels);
    uint volume = image / PLANES;
    return volume * channels * RESULT_PLANES + (image - volume * PLANES) * RESULT_STEP;
}
