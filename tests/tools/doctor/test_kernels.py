"""Every kernel of the self-tests compiles and is valid, in each variant."""

import pytest

from vkbackend.shader import compiler
from vkbackend.tools.doctor import dtype_cases, kernels

SHAPE = {"m": 16, "n": 8, "k": 16, "scope": "subgroup", "saturating": False}
TYPES = (
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("bfloat16", "bfloat16"),
    ("int8", "int32"),
    ("uint8", "uint32"),
)
VARIANTS = [
    ("arithmetic", kernels.ARITHMETIC, {}),
    ("increment", kernels.INCREMENT, {}),
    ("atomics", kernels.ATOMICS, {}),
    ("float atomics", kernels.FLOAT_ATOMICS, {}),
    ("sum", kernels.SUBGROUP, {"OPERATION": "subgroupAdd(value)"}),
    ("swap", kernels.SUBGROUP, {"OPERATION": "subgroupShuffleXor(value, 1)"}),
    *(
        (name, kernels.WIDTH, {"T": row.stored, "C": row.computed})
        for name, row in dtype_cases.STORAGE_CASES.items()
    ),
    *(
        (
            f"matrix {a} {c}",
            kernels.MATRIX,
            dtype_cases.matrix_defines({**SHAPE, "a": a, "b": a, "c": c}),
        )
        for a, c in TYPES
    ),
]


@pytest.mark.parametrize(
    ("source", "defines"),
    [pytest.param(source, defines, id=name) for name, source, defines in VARIANTS],
)
def test_kernel_is_valid(source: str, defines: dict[str, str]) -> None:
    words = compiler.compile_glsl(source, name="doctor", defines=defines)
    assert compiler.validate_spirv(words) is None
