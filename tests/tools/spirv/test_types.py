import pytest

from vkbackend.tools.spirv.module import read_program

from .shaders import COOPERATIVE, compiled
from .test_lint_rules import WIDE

BODY = """
struct Pair {{ float low; vec3 high; }};
shared {type} cell[2];
void main() {{ cell[lane] = cell[0]; push.y.at[i] = float(lane); }}
"""


@pytest.mark.parametrize(
    ("name", "size", "alignment", "components"),
    [
        ("float", 4, 4, 1),
        ("uint", 4, 4, 1),
        ("int", 4, 4, 1),
        ("double", 8, 8, 1),
        ("vec2", 8, 8, 2),
        ("vec3", 12, 16, 3),
        ("uvec4", 16, 16, 4),
        ("bvec2", 8, 8, 2),
        ("int16", 2, 2, 1),
        ("f16vec4", 8, 8, 4),
        ("u64vec2", 16, 16, 2),
        ("Pair", 32, 16, 4),
    ],
)
def test_types(name: str, size: int, alignment: int, components: int) -> None:
    spelled = {"int16": "int16_t", "bool": "bool"}.get(name, name)
    program = read_program(compiled(BODY.format(type=spelled), WIDE))
    number = next(n for n, text in program.names.items() if text == "cell")
    array = program.type(program.type_of(number).element)
    kind = program.type(array.element)
    assert (kind.name, kind.size, kind.alignment, kind.components) == (
        *(name, size, alignment),
        components,
    )
    assert array.name == f"{name}[2]"
    assert array.size == 2 * (-(-size // alignment) * alignment)


def test_matrices_and_bfloat16() -> None:
    program = read_program(compiled(COOPERATIVE, ""))
    kinds = {program.type(number).name for number in program.defined}
    assert {"coopmat<bfloat16, 16, 16>", "coopmat<float, 16, 16>"} <= kinds
