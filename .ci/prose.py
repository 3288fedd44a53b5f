"""Check texts for patterns and words that make them hard to read: `python .ci/prose.py [PATH ...]`.

Comments, docstrings, pages, and the texts of users: strings of the product's code, templates, scripts, and the English
texts of translations. Prints FILE:LINE: RULE: TEXT for each finding; exit status 1 where there is one. Without paths:
all that git tracks.
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

#: Metaphors that were replaced by terms of the field (CONTRIBUTING has the table), also in names of the code.
METAPHORS = (
    *("aftercare", "berth", "courier", "crew", "dealer", "hub", "ledger", "outlook", "patience", "postman"),
    *("purse", "tour", "uprooter", "wallet", "weather"),
)
#: Turns that say less than a term of the field.
TURNS = ("(is|are) wanted", "(must|has to) see to it", "no word (came|from)", "hung up", "rides? out")
#: Rules for every text: a name and a pattern.
WORDS = {
    "write 'the user' or 'they', not 'he'": re.compile(r"\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b"),
    "a server or program does not 'tell': it reports, returns, announces, sends": re.compile(
        r"\b([Tt]ells?|[Tt]old|[Tt]elling)\b"
    ),
}
METAPHOR = {
    "write the term of the field, not a metaphor": re.compile(
        rf"\b(({'|'.join(METAPHORS)})s?|{'|'.join(TURNS)})\b", re.IGNORECASE
    )
}
#: Rules for comments, docstrings and pages. A sentence begins at the start of a text or after ". ", ": " does not begin
#: one.
SENTENCES = {
    "write 'Raises X', not '-> X'": re.compile(r"-> *`?\w*(Error|Exception)\b"),
    "begin a sentence with its subject, not with 'What', 'Who' or 'Whose'": re.compile(
        r"(?:^|(?<=[.!?] ))(What|Who|Whose|Whom)\b(?![^.?!]*\?)"
    ),
}
#: Folders whose strings users see.
PRODUCT = ("deploy/", "endpoints/", "identity/", "transferapi/", "webui/", "workers/")
#: Files whose comments begin with "#", by the end of their names or the whole name.
COMMENTED = frozenset(
    {".sh", ".yml", ".template", ".toml", "Makefile", "Dockerfile", ".dockerignore", ".gitignore", "box", "run"}
)
#: Pages of the past are not rewritten; this file names what it looks for.
PASSED_OVER = ("CHANGELOG.md", "LICENSE", ".ci/prose.py")


def main() -> int:
    paths = sys.argv[1:] or ["."]
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], capture_output=True, text=True, check=True)
    found = 0
    for name in filter(None, listed.stdout.split("\0")):
        path = Path(name)
        if not path.exists() or name in PASSED_OVER or "/migrations/" in name:
            continue
        for line, rule, text in sorted(_findings(path)):
            found += 1
            sys.stdout.write(f"{name}:{line}: {rule}: {text}\n")
    return 1 if found else 0


def _findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """The line, the rule and the text of each finding."""
    pieces = [(line, text, SENTENCES | WORDS | METAPHOR) for line, text in _texts(path)]
    pieces += [(line, text, WORDS | METAPHOR) for line, text in _shown(path)]
    pieces += [(line, text, METAPHOR) for line, text in _names(path)]
    for line, text, rules in pieces:
        for rule, pattern in rules.items():
            if match := pattern.search(text):
                yield line, rule, text[max(0, match.start() - 60) : match.end() + 60].strip()


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Pieces of prose with their lines."""
    if path.suffix == ".py":
        source = path.read_text()
        for text in _docstrings(ast.parse(source)):
            yield from _lines(text)
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


def _shown(path: Path) -> Iterator[tuple[int, str]]:
    """Texts that users may see, with their lines."""
    if not str(path).startswith(PRODUCT):
        return
    if path.suffix == ".py":
        tree = ast.parse(path.read_text())
        docstrings = set(_docstrings(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                yield from _lines(node)
    elif path.suffix == ".html":
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield number, _ATTRIBUTES.sub("", line)
    elif path.suffix in _LITERALS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for text in _LITERALS[path.suffix].findall(line):
                yield number, text


#: The texts in a line of a script (literals with a space), and of translations (what is translated).
_LITERALS = {
    ".js": re.compile(r"""["'`]([^"'`]* [^"'`]*)["'`]"""),
    ".po": re.compile(r'^(?:msgid |msgid_plural )?"(.*)"'),
}
#: Attributes of a template that users do not see.
_ATTRIBUTES = re.compile(r'\b(class|id|href|name|for|src)="[^"]*"')


def _names(path: Path) -> Iterator[tuple[int, str]]:
    """The names that the product's code and the benchmarks define, as words."""
    if path.suffix != ".py" or not str(path).startswith((*PRODUCT, "bench/")):
        return
    yield 1, path.stem.replace("_", " ")
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, _words(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, _words(name)


def _words(name: str) -> str:
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)).lower()


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.value


def _lines(text: ast.Constant) -> Iterator[tuple[int, str]]:
    """The lines of a string with a space."""
    if " " in str(text.value):
        for number, line in enumerate(str(text.value).splitlines(), text.lineno):
            yield number, line.strip()


if __name__ == "__main__":
    raise SystemExit(main())
