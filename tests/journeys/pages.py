"""Runs the examples of a page of docs/ as a reader types them: one shell and one Python for the whole page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from transferapi.config import CHECKOUT

#: An example: fenced with its language, also in a list, or indented behind an empty line.
_EXAMPLE = re.compile(
    r"^(?P<in> *)```(?P<language>\w+)\n(?P<fenced>.*?)^(?P=in)```$|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n)+)",
    re.M | re.S,
)
_SECTION = re.compile(r"^## (.*)$", re.M)
#: Sets `wrong` after a command that fails, and goes on, as a terminal does.
_SHELL = "set -E -o pipefail; trap 'wrong=1' ERR\n"
_PYTHON = """
import sys, traceback
names = {"__name__": "__main__"}
block = ""
for line in sys.stdin:
    if line != "\\0\\n":
        block += line
        continue
    wrong = 0
    try:
        exec(compile(block, "example", "exec"), names)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        wrong = 1
    print("\\0", wrong, flush=True)
    block = ""
"""
#: Seconds for one example, and for the end of a shell.
_SECONDS, _END_SECONDS = 60, 10


@dataclass(frozen=True)
class Example:
    """language: "sh" for indented ones."""

    section: str
    language: str
    text: str


def examples(page: str) -> list[Example]:
    """All examples of a page, in order."""
    text = (CHECKOUT / "docs" / page).read_text()
    sections = [(found.start(), found[1]) for found in _SECTION.finditer(text)]
    made = []
    for found in _EXAMPLE.finditer(text):
        section = next((name for at, name in reversed(sections) if at < found.start()), "")
        body = textwrap.dedent(found["fenced"] or found["indented"])
        made.append(Example(section, found["language"] or "sh", body))
    return made


class Reader:
    """Runs examples one after another. words: what the reader writes in place of words of the page.

    folder: where the reader is. Programs in `folder/bin` come first.
    """

    def __init__(self, folder: Path, words: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.words = dict(words)
        self.path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {"PATH": self.path, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT)}
        self._environment |= environment
        self._folder = folder
        self._running: dict[str, subprocess.Popen[str]] = {}

    def run(self, example: Example) -> str:
        """The output. Raises AssertionError where a command fails."""
        text = self._typed(example.text)
        child = self._child(example.language)
        assert child.stdin is not None
        if example.language == "python":
            child.stdin.write(f"{text}\0\n")
        else:
            child.stdin.write(f"wrong=0\n{{ {text}\n}} </dev/null\nprintf '\\0 %s\\n' $wrong\n")
        child.stdin.flush()
        timer = threading.Timer(_SECONDS, child.kill)
        timer.start()
        try:
            lines = list(self._answer(child))
        finally:
            timer.cancel()
        output = "".join(lines[:-1]) + lines[-1].partition("\0")[0]
        # A task that is done already cannot be canceled.
        done = lines[-1].endswith("\0 0\n") or '"TaskComplete"' in output
        assert done, f"{example.section}:\n{text}\n{output}"
        return output

    def close(self) -> None:
        for child in self._running.values():
            try:
                child.communicate(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()

    def _typed(self, text: str) -> str:
        for word, other in self.words.items():
            text = text.replace(word, other)
        return text

    def _child(self, language: str) -> subprocess.Popen[str]:
        if language not in self._running:
            words = ["bash", "--norc"] if language == "sh" else [sys.executable, "-u", "-c", _PYTHON]
            self._running[language] = child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=self._environment, cwd=self._folder,
            )  # fmt: skip
            if language == "sh":
                assert child.stdin is not None
                child.stdin.write(_SHELL)
        return self._running[language]

    @staticmethod
    def _answer(child: subprocess.Popen[str]) -> Iterator[str]:
        assert child.stdout is not None
        for line in child.stdout:
            yield line
            if "\0" in line:
                return
        yield "\0 ended\n"
