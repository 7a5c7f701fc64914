from pathlib import Path

import pytest

from vkbackend.errors import ShaderError
from vkbackend.shader.preprocessor import expand

pytestmark = pytest.mark.null


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.glsl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def origins(source: str, folder: Path, **defines: str) -> dict[str, tuple[str, int]]:
    """Return where each line of the expanded text comes from, by its content."""
    expanded = expand(source, "main.comp", defines, (folder,))
    found = {}
    name, line = "main.comp", 0
    for text in expanded.text.splitlines():
        if text.startswith("#line"):
            _, number, file = text.split()
            name, line = expanded.files[int(file)].name, int(number) - 1
        else:
            line += 1
            found[text] = (name, line)
    return found


def test_lines_keep_their_file_and_number(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "glsl",
        lib__a='a1\n#include "b.glsl"\na3\n',
        lib__b="b1\nb2",
    )
    source = '// header\n#version 460\nm3\n#include "lib/a.glsl" // types\nm5\n'
    found = origins(source, folder, T="float")
    assert found["m3"] == ("main.comp", 3)
    assert found["m5"] == ("main.comp", 5)
    assert found["a1"] == ("glsl/lib/a.glsl", 1)
    assert found["a3"] == ("glsl/lib/a.glsl", 3)
    assert found["b2"] == ("glsl/lib/b.glsl", 2)
    assert found["#define T float"] == ("main.comp (defines)", 1)


def test_macros_stand_between_version_and_the_rest(tmp_path: Path) -> None:
    text = expand("#version 460\nvoid main() {}", "x", {"A": "1", "B": ""}, ()).text
    wanted = ["#version 460", "#define A 1", "#define B ", "void main() {}"]
    assert [line for line in text.splitlines() if "#line" not in line] == wanted


def test_each_file_is_expanded_once(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        a='#include "c.glsl"\n',
        b='#include "c.glsl"\n#include "sub/../c.glsl"\n',
        c="content\n",
        sub__d="",
    )
    source = '#version 460\n#include "a.glsl"\n#include "b.glsl"\n#include "a.glsl"\n'
    assert expand(source, "x", {}, (folder,)).text.count("content") == 1


def test_file_beside_the_includer_comes_first(tmp_path: Path) -> None:
    folder = write(tmp_path, lib__a='#include "x.glsl"\n', lib__x="near\n", x="far\n")
    text = expand('#version 460\n#include "lib/a.glsl"', "m", {}, (folder,)).text
    assert "near" in text
    assert "far" not in text


def test_folders_are_searched_in_order(tmp_path: Path) -> None:
    first = write(tmp_path / "first", x="first\n")
    second = write(tmp_path / "second", x="second\n", y="other\n")
    source = '#version 460\n#include "x.glsl"\n#include "y.glsl"'
    text = expand(source, "m", {}, (first, second)).text
    assert "first" in text
    assert "second" not in text
    assert "other" in text


def test_include_in_an_untaken_branch_may_come_again(tmp_path: Path) -> None:
    folder = write(tmp_path, a="content\n")
    source = (
        '#version 460\n#ifdef NEVER\n#include "a.glsl"\n#endif\n#include "a.glsl"\n'
    )
    text = expand(source, "m", {}, (folder,)).text
    assert text.count("content") == 2
    assert text.count("#ifndef INCLUDED_0") == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("void main() {}", r"main\.comp: there is no #version; begin with #version"),
        (
            '#version 460\n\n#include "lib/no.glsl"',
            r'main\.comp:3: include "lib/no\.glsl" is not found: looked in .+;',
        ),
        (
            "#version 460\n#include <a.glsl>",
            r"main\.comp:2: an include cannot be read: <a\.glsl>; it must be",
        ),
        (
            '#version 460\n#include "loop.glsl"',
            r"shaders/other\.glsl:2: includes form a cycle: main\.comp ->"
            r" shaders/loop\.glsl -> shaders/other\.glsl -> shaders/loop\.glsl;",
        ),
        (
            '#version 460\n#include "broken.glsl"',
            r'shaders/broken\.glsl:1: include "gone\.glsl" is not found',
        ),
    ],
)
def test_bad_includes(source: str, message: str, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "shaders",
        loop='#include "other.glsl"\n',
        other='\n#include "loop.glsl"\n',
        broken='#include "gone.glsl"\n',
    )
    with pytest.raises(ShaderError, match=message):
        expand(source, "main.comp", {}, (folder,))


def test_define_of_two_lines_is_refused() -> None:
    with pytest.raises(ShaderError, match=r"m: define A: it must be one line: '1\\n2'"):
        expand("#version 460", "m", {"A": "1\n2"}, ())


def escapes(folder: Path, name: str) -> str:
    """Return the name of a file outside `folder`, as a shader may write it."""
    secret = folder.parent / "secret"
    secret.write_text("the secret\n")
    (folder / "link").symlink_to(secret)
    (folder / "above").symlink_to(folder.parent)
    (folder / "chain").symlink_to("link")
    return name.format(secret=secret)


@pytest.mark.parametrize(
    "name",
    [
        *("{secret}", "../secret", "a/../../secret", "link", "chain", "above/secret"),
        *("/dev/null", "/dev/stdin", "/proc/self/mem", "../" * 30 + "etc/passwd"),
    ],
)
def test_includes_stay_inside_their_folders(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "glsl", a="", in_a='#include "../../secret"\n')
    target = escapes(folder, name)
    with pytest.raises(ShaderError, match="leads out of the folders") as caught:
        expand(f'#version 460\n#include "{target}"', "m", {}, (folder,))
    assert "the secret" not in str(caught.value)


def test_an_include_inside_a_folder_may_lead_through_links(tmp_path: Path) -> None:
    folder = write(tmp_path / "real", lib__a='#include "../b.glsl"\n', b="content\n")
    (tmp_path / "named").symlink_to(folder)
    (folder / "same.glsl").symlink_to("b.glsl")
    source = '#version 460\n#include "lib/a.glsl"\n#include "same.glsl"\n'
    text = expand(source, "m", {}, (tmp_path / "named",)).text
    assert text.count("content") == 1


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 5000, "\0", "\ud800.glsl"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ShaderError, match=r"^m:2: include .* (not found|leads out)"
    ) as e:
        expand(f'#version 460\n#include "{name}"', "m", {}, (tmp_path,))
    assert len(str(e.value)) < 1000


def test_half_a_character_is_refused() -> None:
    for source, defines in (("// \udcff", {}), ("", {"A": "\ud800"})):
        with pytest.raises(ShaderError, match=r"^m: the source holds '\\ud"):
            expand(f"#version 460\n{source}", "m", defines, ())


def test_includes_without_end_are_refused(tmp_path: Path) -> None:
    deep = {f"d{i}": f'#include "d{i + 1}.glsl"\n' for i in range(200)}
    twice = '#if 1\n#include "w{0}.glsl"\n#endif\n' * 2
    wide = {f"w{i}": twice.format(i + 1) + "x" * 999 for i in range(40)}
    folder = write(tmp_path, **deep, **wide, w40="")
    for name in ("d0", "w0"):
        with pytest.raises(ShaderError, match="the shader is too large"):
            expand(f'#version 460\n#include "{name}.glsl"', "m", {}, (folder,))


def test_small_files_that_make_many_includes_are_refused(tmp_path: Path) -> None:
    # 40 files made 2**40 includes, one after another.
    twice = '#if 1\n#include "w{0}.glsl"\n#include "w{0}.glsl"\n#endif\n'
    rows = {f"w{i}": twice.format(i + 1) for i in range(40)}
    folder = write(tmp_path, **rows, w40="")
    with pytest.raises(ShaderError, match=r"it has 4097 includes; at most 4096"):
        expand('#version 460\n#include "w0.glsl"', "m", {}, (folder,))


def test_no_more_of_a_file_is_read_than_a_shader_may_have(tmp_path: Path) -> None:
    with open(tmp_path / "large.glsl", "wb") as file:
        file.truncate(1 << 28)  # a hole, without blocks
    with pytest.raises(ShaderError, match=r"glsl: the shader is too large: 1677"):
        expand('#version 460\n#include "large.glsl"', "m", {}, (tmp_path,))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_cannot_be_read() -> None:
    folder = Path("/proc/self")
    with pytest.raises(ShaderError, match=r"m:2: .*/mem cannot be read: .+; it must"):
        expand('#version 460\n#include "mem"', "m", {}, (folder,))


@pytest.mark.parametrize("version", ["", "0", "-1", "110", "140", "300 es", "abc"])
def test_versions_without_compute_shaders(version: str) -> None:
    # glslang prints 300 kB of built-in functions on standard output for some of them.
    with pytest.raises(ShaderError, match=r"^m:2: #version .*has no compute shaders"):
        expand(f"\n#version {version}\nvoid main() {{}}", "m", {}, ())
