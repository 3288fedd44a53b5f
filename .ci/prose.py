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
from collections.abc import Iterator, Mapping
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
    "write 'None if it ...', not 'None: it ...'": re.compile(
        r"""(?:\b(?:None|True|False)|""): (?:it|there|they|nobody|this)\b"""
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
    if path.suffix not in READ and path.name not in COMMENTED:
        return
    for line, text, rules in _pieces(path, path.read_text()):
        for rule, pattern in rules.items():
            if match := pattern.search(text):
                yield line, rule, text[max(0, match.start() - 60) : match.end() + 60].strip()


#: Files that are read, by the end of their names.
READ = COMMENTED | {".py", ".md", ".html", ".js", ".po"}
Rules = Mapping[str, re.Pattern[str]]
OF_PROSE: Rules = SENTENCES | WORDS | METAPHOR
OF_SHOWN: Rules = WORDS | METAPHOR


def _pieces(path: Path, source: str) -> Iterator[tuple[int, str, Rules]]:
    """Texts with their lines and the rules for them."""
    if path.suffix == ".py":
        yield from _of_code(path, source)
        return
    shown = str(path).startswith(PRODUCT)
    commented = path.suffix in COMMENTED or path.name in COMMENTED
    for number, line in enumerate(source.splitlines(), 1):
        if commented and line.lstrip().startswith("#"):
            yield number, line.lstrip("#! "), OF_PROSE
        elif path.suffix == ".md":
            yield number, re.sub(r"`[^`]*`|https?://\S+", "", line).lstrip("|#*- "), OF_PROSE
        elif shown and path.suffix == ".html":
            yield number, _ATTRIBUTES.sub("", line), OF_SHOWN
        elif shown and path.suffix in _LITERALS:
            for text in _LITERALS[path.suffix].findall(line):
                yield number, text, OF_SHOWN


#: The texts in a line of a script (literals with a space), and of translations (what is translated).
_LITERALS = {
    ".js": re.compile(r"""["'`]([^"'`]* [^"'`]*)["'`]"""),
    ".po": re.compile(r'^(?:msgid |msgid_plural )?"(.*)"'),
}
#: Attributes of a template that users do not see.
_ATTRIBUTES = re.compile(r'\b(class|id|href|name|for|src)="[^"]*"')


def _of_code(path: Path, source: str) -> Iterator[tuple[int, str, Rules]]:
    """Docstrings, comments and names of tests; of the product also all other strings; of it and of bench all names."""
    shown, named = str(path).startswith(PRODUCT), str(path).startswith((*PRODUCT, "bench/"))
    yield from ((line, text, OF_PROSE) for line, text in _comments(source))
    if named:
        yield 1, path.stem.replace("_", " "), METAPHOR
    docstrings: set[ast.AST] = set()
    # Parents come before their children here, and so a docstring is known as one when it is met.
    for node in ast.walk(ast.parse(source)):
        if (docstring := _docstring(node)) is not None:
            docstrings.add(docstring)
        if isinstance(node, ast.Constant) and (shown or node in docstrings):
            rules = OF_PROSE if node in docstrings else OF_SHOWN
            yield from ((line, text, rules) for line, text in _lines(node))
        if (name := _defined(node)) and (named or name.startswith("test_")):
            yield node.lineno, _words(name), WORDS if name.startswith("test_") else METAPHOR  # type: ignore[attr-defined]


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments with their lines. Tokens are slow to make: none where no text after a "#" is against a rule."""
    after = (line[mark.start() :].lstrip("#: ") for line in source.splitlines() for mark in _MARK.finditer(line))
    if not any(pattern.search(text) for text in after for pattern in OF_PROSE.values()):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


_MARK = re.compile("#")


def _defined(node: ast.AST) -> str:
    """The name that a node defines, or none."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return name
    return ""


def _words(name: str) -> str:
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)).lower()


def _docstring(node: ast.AST) -> ast.Constant | None:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return first.value if isinstance(first.value.value, str) else None
    return None


def _lines(text: ast.Constant) -> Iterator[tuple[int, str]]:
    """The lines of a string with a space."""
    if isinstance(text.value, str) and " " in text.value:
        for number, line in enumerate(text.value.splitlines(), text.lineno):
            yield number, line.strip()


if __name__ == "__main__":
    raise SystemExit(main())
