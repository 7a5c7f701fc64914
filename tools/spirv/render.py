"""Renderer of reports as text, for a terminal of any width, with colour or without."""

from collections.abc import Iterable, Sequence
from typing import Any

from .driver_statistics import PipelineExecutable
from .lint import Diagnostic
from .lint_rules import RULES
from .offline import FAMILIES, CompiledKernel
from .report import Report

_STYLES = {"title": "1", "good": "32", "bad": "31", "note": "2", "warning": "33"}
_NARROWEST = 20


class Page:
    """Lines of text, laid out for one terminal.

    Parameters
    ----------
    width : int
        Columns.
    colour : bool
        Whether to mark words with the terminal's colours.
    """

    def __init__(self, width: int = 80, colour: bool = False) -> None:
        self.width = max(width, 40)
        self.colour = colour
        self.lines: list[str] = []

    def style(self, text: str, name: str) -> str:
        """Return text in a colour, if this page has any."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self.colour and name else text

    def title(self, text: str) -> None:
        """Begin a section."""
        if self.lines:
            self.lines.append("")
        self.lines.append(self.style(text, "title"))

    def text(self, text: str, indent: int = 2, style: str = "") -> None:
        """Add running text, broken between words."""
        for line in _wrap(text, self.width - indent):
            self.lines.append(" " * indent + self.style(line, style))

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Add names and values in two columns."""
        self.table([(name, value) for name, value in rows])

    def table(self, rows: Sequence[Sequence[str]], style: Sequence[str] = ()) -> None:
        """Add columns as wide as needed; the last is broken between words."""
        if not rows:
            return
        count = len(rows[0])
        widths = [max(len(row[i]) for row in rows) for i in range(count - 1)]
        left = 2 + sum(widths) + 2 * len(widths)
        room = max(self.width - left, _NARROWEST)
        for number, row in enumerate(rows):
            head = "  " + "".join(f"{c:{w}}  " for c, w in zip(row, widths))
            name = style[number] if number < len(style) else ""
            for line in _wrap(row[-1], room) or [""]:
                self.lines.append((head + self.style(line, name)).rstrip())
                head = " " * left

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _wrap(text: str, width: int) -> list[str]:
    """Return text in lines; a word that is too long is cut."""
    lines: list[str] = []
    for word in text.split():
        while len(word) > width:
            # Names with dots are cut there.
            end = word.rfind(".", 1, width) + 1 or width
            lines.append(word[:end])
            word = word[end:]
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def amount(count: int, unit: str) -> str:
    """Return a count with its unit: `1 round`, `3 rounds`, `8 704 bytes`."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}".replace(",", " ")


def show_report(page: Page, found: Report) -> None:
    """Add everything about one shader."""
    page.title(found["name"])
    _show_head(page, found)
    _show_requirements(page, found)
    if found["constants"]:
        page.title("Specialization constants")
        page.table([_constant(row) for row in found["constants"]])
    for key, title in (("push", "Push constants"), ("arguments", "Arguments")):
        if found[key] is not None:
            _show_block(page, title, found[key])
    _show_memory(page, found)
    page.title("Instructions, each once")
    rows = sorted(found["classes"].items(), key=lambda item: -item[1])
    page.table([(kind, f"{count}") for kind, count in rows])
    page.title("Costs of one invocation")
    _show_cost(page, found["invocation"])


def _show_head(page: Page, found: Report) -> None:
    workgroup, structure = found["workgroup"], found["structure"]
    size = " x ".join(map(str, workgroup["size"]))
    by_host = [
        f"{axis}: constant {number}"
        for axis, number in zip("xyz", workgroup["constants"])
        if number is not None
    ]
    told = f" ({', '.join(by_host)})" if by_host else ""
    invocations = amount(workgroup["invocations"], "invocation")
    parts = [
        amount(structure[word], word[:-1]) for word in ("functions", "blocks", "loops")
    ]
    parts.append(f"{structure['branches']} branches")
    if structure["switches"]:
        parts.append(f"{structure['switches']} switches")
    rows = [
        ("entry point", found["entry_point"]),
        ("workgroup", f"{size} = {invocations}{told}"),
        ("SPIR-V", f"{'.'.join(map(str, found['version']))}"),
        ("size", f"{amount(found['bytes'], 'byte')},"
         f" {amount(found['instructions'], 'instruction')}"),
        ("structure", f"{', '.join(parts)}, loops {structure['deepest_nest']} deep"),
    ]  # fmt: skip
    if found["device"] is not None:
        rows.append(("device", found["device"]))
    page.pairs(rows)


def _show_requirements(page: Page, found: Report) -> None:
    page.title("Capabilities and extensions")
    rows = [*found["capabilities"], *found["extensions"]]
    words = {True: ("yes", "good"), False: ("MISSING", "bad"), None: ("", "")}
    if found["device"] is None:
        page.table([(row["name"], row["needs"] or "not known here") for row in rows])
        return
    page.table(
        [
            (row["name"], words[row["present"]][0] or "?", row["needs"] or "unknown")
            for row in rows
        ],
        style=[words[row["present"]][1] for row in rows],
    )


def _constant(row: Report) -> tuple[str, str, str, str]:
    value = f"{row['value']}"
    if row["value"] != row["default"]:
        value += f" (default {row['default']})"
    return str(row["id"]), row["name"], row["type"], value


def _show_block(page: Page, title: str, block: Report) -> None:
    page.title(title)
    rows = [
        (str(row["offset"]), row["name"], row["kind"], amount(row["size"], "byte"))
        for row in block["fields"]
    ]
    page.table(rows)
    if "limit" in block:
        over = block["size"] > block["limit"]
        verdict = "too many for" if over else "of"
        text = f"{block['size']} bytes {verdict} the {block['limit']} that every device"
        page.text(f"{text} has", style="bad" if over else "note")
    else:
        page.text(f"{block['size']} bytes, behind one address", style="note")


def _show_memory(page: Page, found: Report) -> None:
    if found["buffers"]:
        page.title("Buffers behind addresses")
    for buffer in found["buffers"]:
        alignments = ", ".join(map(str, buffer["alignments"])) or "none stated"
        page.text(
            f"{buffer['name']}: {amount(buffer['reads'], 'load')},"
            f" {amount(buffer['writes'], 'store')}, alignment {alignments}"
        )
        rows = [
            (
                f"  {row['offset']}",
                row["name"],
                row["type"],
                " ".join(row["qualifiers"]) or "no qualifiers",
            )
            for row in buffer["members"]
        ]
        page.table(rows)
    shared = found["shared"]
    if shared["variables"]:
        page.title("Shared memory")
        page.table(
            [
                (row["name"], row["type"], amount(row["size"], "byte"))
                for row in shared["variables"]
            ]
        )
        whose = found["device"] or "every device"
        over = shared["size"] > shared["limit"]
        page.text(
            f"{amount(shared['size'], 'byte')} of the {amount(shared['limit'], 'byte')}"
            f" that {whose} has",
            style="bad" if over else "note",
        )


def _show_cost(page: Page, cost: Report, depth: int = 0) -> None:
    if depth == 0:
        name = "outside loops"
    else:
        known = cost["rounds"] is not None
        times = amount(cost["rounds"], "round") if known else "rounds unknown"
        name = f"loop in {cost['function']}, {times}"
    page.text(f"{name}: {_tally(cost['own'])}", indent=2 + 2 * depth)
    for inner in cost["loops"]:
        _show_cost(page, inner, depth + 1)
    if depth == 0:
        note = "" if cost["complete"] else " (loops of unknown length counted once)"
        page.text(f"together: {_tally(cost['total'])}{note}", style="title")


def _tally(tally: Report) -> str:
    parts = [amount(tally["instructions"], "instruction")]
    if tally["flops"]:
        parts.append(amount(tally["flops"], "flop"))
    if tally["matrix_flops"]:
        parts.append(f"{amount(tally['matrix_flops'], 'matrix flop')} per scope")
    for where in ("device", "shared"):
        for verb in ("read", "written"):
            size = tally[verb].get(where, 0)
            if size:
                parts.append(f"{where} {amount(size, 'byte')} {verb}")
    return ", ".join(parts)


def show_executables(
    page: Page, found: Sequence[PipelineExecutable], device: str
) -> None:
    """Add what the driver says of a kernel."""
    page.title(f"What the driver of {device} says")
    if not found:
        page.text("nothing: it lacks VK_KHR_pipeline_executable_properties")
    for row in found:
        page.text(f"{row.name}: {row.description}, subgroups of {row.subgroup_size}")
        page.table([(f"  {s.name}", str(s.value)) for s in row.statistics])
        for form in row.representations:
            size = amount(form.size, "byte")
            page.text(f"{form.name}: {form.description}, {size}", indent=4)
            page.lines += [f"      {line}" for line in form.text.splitlines()]


_COLUMNS = {
    "VGPRs": "VGPRs",
    "SGPRs": "SGPRs",
    "shared": "LDS size",
    "scratch": "Scratch size",
    "code": "Code size",
}


def show_compiled(page: Page, family: str, found: Sequence[CompiledKernel]) -> None:
    """Add what a GPU family's compiler makes of kernels."""
    page.title(f"Compiled for {family}: {FAMILIES[family]}")
    heads = ("subgroup", "per SIMD", "spills", *_COLUMNS, "kernel")
    rows = [heads]
    styles = ["title"]
    for row in found:
        if row.executable is None:
            continue
        numbers = [row.executable.subgroup_size, row.occupancy, row.spills]
        numbers += [row.statistic(name) for name in _COLUMNS.values()]
        rows.append((*map(str, numbers), row.name))
        styles.append("bad" if row.spills else "")
    page.table(rows, styles)
    page.text("per SIMD: subgroups that a SIMD unit holds at once; sizes in bytes")
    for row in found:
        if row.problem:
            verdict = "refused" if row.refused else "FAILED"
            page.text(f"{row.name}: {verdict}: {row.problem}", style="bad")
        elif row.executable is not None:
            for form in row.executable.representations:
                if form.name == "Assembly":
                    page.title(row.name)
                    page.lines += [f"  {line}" for line in form.text.splitlines()]


def show_diagnostics(page: Page, name: str, found: Sequence[Diagnostic]) -> None:
    """Add what lint found in one shader."""
    page.title(f"{name}: {_verdict(found)}")
    advice = {rule.name: rule for rule in RULES}
    told = set()
    for row in found:
        style = "note" if row.reason else "warning"
        page.text(f"{row.where}: {row.message} [{row.rule}]", style=style)
        if row.rule in told:
            continue
        told.add(row.rule)
        if row.reason:
            page.text(f"accepted: {row.reason}", indent=4, style="note")
        else:
            page.text(f"advice: {advice[row.rule].advice}", indent=4)
            page.text(f"measured: {advice[row.rule].evidence}", indent=4, style="note")


def _verdict(found: Sequence[Diagnostic]) -> str:
    open_ = sum(1 for row in found if not row.reason)
    accepted = len(found) - open_
    if not found:
        return "clean"
    text = amount(open_, "finding") if open_ else "clean"
    return f"{text}, {accepted} accepted with a reason" if accepted else text


def show_rules(page: Page) -> None:
    """Add every rule of lint."""
    page.title("Rules")
    for rule in RULES:
        page.text(page.style(rule.name, "title"))
        page.text(f"advice: {rule.advice}", indent=4)
        page.text(f"measured: {rule.evidence}", indent=4, style="note")


def show_changes(page: Page, old: str, new: str, changes: Sequence[Any]) -> None:
    """Add what distinguishes two shaders."""
    page.title(f"{old} -> {new}")
    if not changes:
        page.text("no difference")
    rows = [(row.where, f"{_value(row.old)} -> {_value(row.new)}") for row in changes]
    page.table(rows, style=[_trend(row.old, row.new) for row in changes])


def _value(value: object) -> str:
    return "none" if value is None else str(value)


def _trend(old: object, new: object) -> str:
    if isinstance(old, int) and isinstance(new, int):
        return "good" if new < old else "bad"
    return "bad" if old is None else "good" if new is None else ""
