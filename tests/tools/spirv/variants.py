"""Every variant of every shader of the library."""

import functools

from vkbackend.errors import ShaderError
from vkbackend.include import expand
from vkbackend.shader import glsl_folder, load_kernel_source
from vkbackend.tools.spirv.command import kernels
from vkbackend.tools.spirv.target import Target, dtypes, find


@functools.cache
def library() -> tuple[Target, ...]:
    """Return each kernel in each dtype that it compiles for."""
    found = []
    for name in kernels():
        text, path = load_kernel_source(name)
        source = expand(text, name, {}, (path.parent, glsl_folder()))
        for dtype in dtypes(source):
            try:
                found.append(find(name, dtype=dtype))
            except ShaderError:
                # A kernel of floats refuses integers.
                assert dtype != "float32"
    return tuple(found)
