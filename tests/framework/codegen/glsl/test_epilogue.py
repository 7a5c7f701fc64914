"""The text of epilogues: which kernels take one, what it adds to them."""

from vkbackend.framework.codegen.glsl.epilogue import (
    epilogue_fields,
    epilogue_size,
    takes_epilogue,
    with_epilogue,
)
from vkbackend.framework.codegen.ir.program import (
    Access,
    Instruction,
    KernelProgram,
    Output,
    Pattern,
    Reference,
)
from vkbackend.shader import compiler

KERNELS = (
    "matmul/gemm_tiled",
    "matmul/gemm_simt",
    "matmul/gemm_simt_unaligned",
    "matmul/gemm_coopmat",
    "matmul/gemm_coopmat_unaligned",
    "conv/igemm_tiled",
)


def program(dtype: str) -> KernelProgram:
    """Return relu(product + bias) of rows, rounded to a dtype."""
    kind = (dtype, dtype)
    bias = Reference("in", 0), Reference("in", 1)
    return KernelProgram(
        row_rank=0,
        column_rank=2,
        vec4=True,
        patterns=(Pattern((), ("0", "1"), False),),
        accesses=(Access("product", dtype), Access("vec4", dtype, 0)),
        scalars=("float",),
        factors=(),
        instructions=(
            Instruction("a + b", ("a", "b"), kind, bias, dtype),
            Instruction(
                "max(a, b)",
                ("a", "b"),
                kind,
                (Reference("op", 0), Reference("scalar", 0)),
                dtype,
            ),
        ),
        outputs=(Output(1, dtype),),
    )


def test_which_kernels_take_one() -> None:
    assert all(takes_epilogue(kernel) for kernel in KERNELS)
    assert not takes_epilogue("matmul/gemm_subgroup")
    assert not takes_epilogue("matmul/pack")


def test_arguments() -> None:
    fields = dict(epilogue_fields(program("float32")))
    assert list(fields) == ["in1", "out0", "s0", "size1", "magic1", "shift1"]
    assert epilogue_size(program("float32")) == 2 * 8 + 4 * 4


def test_each_kernel_compiles_with_one() -> None:
    for kernel in KERNELS:
        for dtype in ("float32", "float16", "bfloat16"):
            source = with_epilogue(kernel, program(dtype))
            defines = {} if dtype == "float32" else {"DTYPE": f"DTYPE_{dtype.upper()}"}
            words = compiler.compile_glsl(source, name=kernel, defines=defines)
            assert compiler.validate_spirv(words) is None
            assert (f"from_{dtype}(to_{dtype}(product.x))" in source) == bool(defines)
