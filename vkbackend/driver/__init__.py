"""The Vulkan instance, physical and logical devices, queues."""
