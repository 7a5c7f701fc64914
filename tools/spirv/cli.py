"""Command line of `vkspirv`."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import vkbackend
from vkbackend.device import Device
from vkbackend.shader import compiler

from ..exit_status import is_terminal, outcome
from ..run_script import missing
from . import disassemble, render, script
from .diff import differences
from .driver_statistics import executables
from .lint import Diagnostic, lint
from .lint_rules import RULES
from .module import Constant
from .offline import FAMILIES, compile_kernels, device_info
from .report import report
from .requirement import DeviceSupport
from .target import Target, find

_DESCRIPTION = """\
Show what a compute shader is, what it needs and what it costs. A shader is a .spv file,
a GLSL file, or a kernel of the library, as matmul/gemm_tiled.
"""
_EPILOG = """\
vkspirv diff A B         what one gained and lost, after the same options
vkspirv lint [SHADER..]  what is known to be slow or wrong; every kernel of the library
                         without one. Exit status 1 if something was found
vkspirv lint --rules     the rules and the measurements that justify them
vkspirv --target navi31  what an AMD GPU's compiler makes of every kernel; no GPU needed
"""


def _setting(words: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{words!r} must be NAME=VALUE")
    return name, value


def _constant(words: str) -> tuple[str, Constant]:
    name, value = _setting(words)
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for kind in (lambda number: int(number, 0), float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(f"{words!r}: the value must be a number")


def _parser(mode: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"vkspirv {mode}".rstrip(),
        description=_DESCRIPTION,
        epilog="" if mode else _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shaders", nargs="*", metavar="SHADER", help="what to inspect")
    add = parser.add_argument
    add("--dtype", default="", help="the variant of a kernel for a dtype")
    add("--define", "-D", type=_setting, action="append", default=[],
        metavar="NAME=VALUE", help="a macro")  # fmt: skip
    add("--constant", "-c", type=_constant, action="append", default=[],
        metavar="NAME=VALUE", help="a specialization constant")  # fmt: skip
    add("--script", nargs=argparse.REMAINDER, default=[], metavar="PROGRAM",
        help="run a Python program or module, with what follows; take all it used"
        )  # fmt: skip
    add("--device", nargs="?", const="", default=None, metavar="DEVICE",
        help="compare with a device, and ask its driver: an index or part of a name"
        )  # fmt: skip
    add("--json", action="store_true", help="everything, exactly, as JSON")
    if mode == "lint":
        add("--rules", action="store_true", help="list the rules")
    if not mode:
        add("--target", choices=FAMILIES, metavar="FAMILY",
            help="compile for an AMD GPU that need not be there: "
            + ", ".join(FAMILIES) + "; the whole library without a shader")  # fmt: skip
        add("--isa", action="store_true", help="with --target, the machine code")
        add("--dis", action="store_true", help="disassemble, with source lines")
        add("--validate", action="store_true", help="validate; exit status 1 if not")
    return parser


def main(arguments: Sequence[str] | None = None, output: TextIO | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the program's name; those of the process by default.
    output : TextIO, optional
        Where to print; standard output by default.

    Returns
    -------
    int
        0; 1 if something was found wrong, 2 if the command cannot be carried out.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    mode = words.pop(0) if words[:1] in (["diff"], ["lint"]) else ""
    options = _parser(mode).parse_args(words)
    return outcome(
        "vkspirv", lambda: _MODES[mode](_Session(options, output or sys.stdout))
    )


class _Session:
    """Session of one call: options, targets and output."""

    def __init__(self, options: argparse.Namespace, output: TextIO | None) -> None:
        self.options = options
        self.output = output
        self.device: Device | None = None
        self.has: DeviceSupport | None = None
        if options.device is not None:
            self.device = vkbackend.open_device(options.device or None)
            physical = self.device.physical
            self.has = DeviceSupport(physical.info, physical.extensions)

    def targets(self, default: Sequence[str] = ()) -> list[Target]:
        """Return what the command line names."""
        options = self.options
        if options.script:
            problem = missing(options.script[0])
            if problem:
                raise vkbackend.ShaderError(f"--script: {problem}")
            family = getattr(options, "target", None)
            info = device_info(family) if family else None
            return script.collect(options.script[0], options.script[1:], info)
        found = [
            find(
                name,
                dtype=options.dtype,
                defines=dict(options.define),
                constants=dict(options.constant),
            )
            for name in options.shaders or default
        ]
        if not found:
            raise vkbackend.ShaderError(
                "no shader is named; give a file, a kernel as matmul/gemm_tiled, or"
                " --script"
            )
        return found

    def page(self) -> render.Page:
        """Return an empty page for this terminal."""
        colour = is_terminal(self.output) and not os.environ.get("NO_COLOR")
        return render.Page(shutil.get_terminal_size().columns, colour)

    def print(self, content: object) -> None:
        """Print a page, or a value as JSON."""
        if not isinstance(content, str | render.Page):
            content = json.dumps(content, indent=2)
        print(content, file=self.output)


def _inspect(session: _Session) -> int:
    options = session.options
    if options.target:
        return _compile_for(session)
    if options.isa:
        raise vkbackend.ArgumentError(
            "--isa: no GPU is named; give --target FAMILY, one of "
            + ", ".join(FAMILIES)
        )
    targets = session.targets()
    if options.validate:
        return _validate(session, targets)
    if options.dis:
        for target in targets:
            words, lines = target.with_lines()
            session.print(
                "\n".join((f"; {target.name}", *disassemble.listing(words, lines)))
            )
        return 0
    page, rows = session.page(), []
    for target in targets:
        found = report(target.name, target.words, target.constants, session.has)
        render.show_report(page, found)
        if session.device is not None:
            _check_valid(target)
            said = executables(session.device.logical, target.words, target.constants)
            found["executables"] = [asdict(row) for row in said]
            render.show_executables(page, said, session.device.info.name)
        rows.append(found)
    session.print(rows if options.json else page)
    return 0


def _compile_for(session: _Session) -> int:
    """Compile for a GPU family; exit status 1 if its compiler fails."""
    options = session.options
    targets = session.targets(kernels())
    for target in targets:
        _check_valid(target)
    found = compile_kernels(options.target, targets, representations=options.isa)
    if options.json:
        session.print([asdict(row) for row in found])
    else:
        page = session.page()
        render.show_compiled(page, options.target, found)
        session.print(page)
    return 1 if any(row.problem and not row.refused for row in found) else 0


def _check_valid(target: Target) -> None:
    """Refuse a module from elsewhere that a driver cannot be trusted with."""
    reason = None if target.source else compiler.validate_spirv(target.words)
    if reason is not None:
        raise vkbackend.ShaderError(
            f"{target.name}: the module is not valid: {reason}; no driver is given it"
        )


def _validate(session: _Session, targets: Sequence[Target]) -> int:
    verdicts = {row.name: compiler.validate_spirv(row.words) for row in targets}
    if session.options.json:
        session.print(verdicts)
    else:
        page = session.page()
        page.table(
            [(name, reason or "valid") for name, reason in verdicts.items()],
            style=["bad" if reason else "good" for reason in verdicts.values()],
        )
        session.print(page)
    return 1 if any(verdicts.values()) else 0


def _diff(session: _Session) -> int:
    targets = session.targets()
    if len(targets) != 2:
        raise vkbackend.ShaderError(
            f"diff: {len(targets)} shaders are named; there must be two"
        )
    old, new = (
        report(row.name, row.words, row.constants, session.has) for row in targets
    )
    changes = differences(old, new)
    if session.options.json:
        session.print([asdict(row) for row in changes])
    else:
        page = session.page()
        render.show_changes(page, targets[0].name, targets[1].name, changes)
        session.print(page)
    return 0


def kernels() -> list[str]:
    """Return the names of the library's kernels."""
    folder: Path = compiler.glsl_folder()
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.comp")
    )


def diagnostics(target: Target) -> list[Diagnostic]:
    """Return what lint finds in a target, with source lines where there are any."""
    words, lines = target.with_lines()
    return lint(words, target.constants, sources=lines, texts=target.texts)


def _lint(session: _Session) -> int:
    options = session.options
    page = session.page()
    if options.rules:
        rules = [(rule.name, rule.advice, rule.evidence) for rule in RULES]
        render.show_rules(page)
        keys = ("name", "advice", "evidence")
        listed: list[Any] = [dict(zip(keys, row)) for row in rules]
        session.print(listed if options.json else page)
        return 0
    rows = [(row.name, diagnostics(row)) for row in session.targets(kernels())]
    for name, found in rows:
        render.show_diagnostics(page, name, found)
    if options.json:
        session.print({name: [asdict(row) for row in found] for name, found in rows})
    else:
        session.print(page)
    return 1 if any(not row.reason for _, found in rows for row in found) else 0


_MODES: dict[str, Callable[[_Session], int]] = {
    "": _inspect,
    "diff": _diff,
    "lint": _lint,
}
