"""The rooms as a table, and the folders of the engine as a diagram."""

from __future__ import annotations

from .floors import room as box_of
from .floors import title
from .imports import FLOORS, collapse, module_graph, modules, package, packages, reduced, room, sentence

ENGINE = "workers.engine"


def table() -> str:
    """Each folder with the first sentence of its docstring, by floor."""
    lines = ["| floor | folder | what it is for |", "|---|---|---|"]
    order = sorted(FLOORS, key=lambda name: (-FLOORS[name], name))
    for here in order:
        for name in packages():
            if room(name) == here:
                floor = str(FLOORS[here]) if name == here else ""
                lines.append(f"| {floor} | `{name.replace('.', '/')}/` | {sentence(name)} |")
    return "\n".join(lines)


def imports_table() -> str:
    """Which room imports from which, with nothing left out."""
    graph = collapse(module_graph(), box_of)
    lines = ["| room | imports from |", "|---|---|"]
    for name in sorted(graph, key=lambda one: (-FLOORS[str(room(one))], one)):
        targets = ", ".join(f"`{title(target)}`" for target in sorted(graph[name]))
        lines.append(f"| `{title(name)}` | {targets or 'nothing of ours'} |")
    return "\n".join(lines)


def engine_group(name: str) -> str | None:
    """The folder of the engine that a module lies in; the slice by itself, and the other modules of its root as one."""
    if not name.startswith(ENGINE + "."):
        return None
    inner = name.removeprefix(ENGINE + ".").partition(".")[0]
    if modules()[name].name == "__init__.py" or package(name) != ENGINE:
        return f"{inner}/"
    return "slice.py" if inner == "slice" else "root"


def engine() -> str:
    """The folders of the engine, and the imports between them."""
    graph = collapse(module_graph(), engine_group)
    names = {name: "the modules beside slice.py: ports, work, retry ..." if name == "root" else name for name in graph}
    ids = {name: name.rstrip("/").replace(".", "_") for name in graph}
    nodes = [f'{ids[name]}["{names[name]}"]' for name in sorted(graph)]
    arrows = [f"{ids[start]} --> {ids[end]}" for start, end in reduced(graph)]
    return "\n".join(["```mermaid", "flowchart LR", *(f"    {line}" for line in [*nodes, *arrows]), "```"])
