// Images that are planes of volumes: they lie as (batch, channels, PLANES, height, width)

layout(constant_id = 48) const uint PLANES = 1;  // of a volume; 1: plain images

// Number of the plane that is the first of `channels` channels of an image. That of the
// next channel is PLANES on.
uint first_plane(uint image, uint channels) {
    if (PLANES == 1) return image * channels;
    uint volume = image / PLANES;
    return volume * channels * PLANES + (image - volume * PLANES);
}
