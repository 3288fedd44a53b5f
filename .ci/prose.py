"""Check comments, docstrings and pages for patterns that make them hard to read: `python .ci/prose.py [PATH ...]`.

Prints FILE:LINE: RULE: TEXT for each finding; exit status 1 where there is one. Without paths: all that git tracks.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

#: Rule -> pattern. A sentence begins at the start of a text or after ". ", ": " does not begin one.
RULES = {
    "write 'Raises X', not '-> X'": re.compile(r"-> *`?\w*(Error|Exception)\b"),
    "write 'the user' or 'they', not 'he'": re.compile(r"\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b"),
    "begin a sentence with its subject, not with 'What', 'Who' or 'Whose'": re.compile(
        r"(?:^|(?<=[.!?] ))(What|Who|Whose|Whom)\b(?![^.?!]*\?)"
    ),
    "a server or program does not 'tell': it reports, returns, announces, sends": re.compile(
        r"\b(tells?|told|telling)\b"
    ),
}
#: Files whose comments begin with "#", by the end of their names or the whole name.
COMMENTED = frozenset(
    {".sh", ".yml", ".template", ".toml", "Makefile", "Dockerfile", ".dockerignore", ".gitignore", "box", "run"}
)
#: Pages of the past are not rewritten.
PASSED_OVER = ("CHANGELOG.md", "LICENSE")


def main() -> int:
    paths = sys.argv[1:] or ["."]
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], capture_output=True, text=True, check=True)
    found = 0
    for name in filter(None, listed.stdout.split("\0")):
        path = Path(name)
        if not path.exists() or name in PASSED_OVER or "/migrations/" in name:
            continue
        for line, text in _texts(path):
            for rule, pattern in RULES.items():
                if pattern.search(text):
                    found += 1
                    sys.stdout.write(f"{name}:{line}: {rule}: {text.strip()[:120]}\n")
    return 1 if found else 0


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Pieces of prose with their lines."""
    if path.suffix == ".py":
        source = path.read_text()
        yield from _docstrings(ast.parse(source))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string.lstrip("#: ")
    elif path.suffix in COMMENTED or path.name in COMMENTED:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("#"):
                yield number, line.lstrip("#! ")
    elif path.suffix == ".md":
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield number, re.sub(r"`[^`]*`|https?://\S+", "", line).lstrip("|#*- ")


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=True)
            if text:
                begin = node.body[0].lineno
                for number, line in enumerate(text.splitlines()):
                    yield begin + number, line


if __name__ == "__main__":
    raise SystemExit(main())
