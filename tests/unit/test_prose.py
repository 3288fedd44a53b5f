"""The check of texts (`.ci/prose.py`) finds what it is for, wherever people read it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.draw.imports import ROOT

#: File, its content, and the rule that it breaks.
BAD = [
    ("docs/page.md", "The server tells the client.\n", "does not 'tell'"),
    ("tests/some.py", '"""What it does."""\n', "begin a sentence with its subject"),
    ("tests/some.py", 'MARK = "#"  # What it is\n', "begin a sentence with its subject"),
    ("tests/some.py", '"""The name; None: it has none."""\n', "write 'None if it ...'"),
    ("tests/some.py", 'NAME = 1  # "": there is none\n', "write 'None if it ...'"),
    ("webui/some.py", 'WHY = _("A number is wanted.")\n', "term of the field"),
    ("workers/some.py", 'say(f"The owner of {name} sees his files.")\n', "not 'he'"),
    ("webui/templates/page.html", '<p class="x">{% translate "States that it is told" %}</p>\n', "does not 'tell'"),
    ("webui/assets/some.js", 'show(t("The weather of the transfers"));\n', "term of the field"),
    ("webui/locale/de/some.po", 'msgid "The user and his files"\nmsgstr "Die Dateien"\n', "not 'he'"),
    ("transferapi/patience.py", "", "term of the field"),
    ("endpoints/some.py", "LONGEST_PATIENCE = 1\n", "term of the field"),
    ("endpoints/some.py", "class SessionWallet: ...\n", "term of the field"),
    ("tests/some.py", "def test_a_fault_is_told() -> None: ...\n", "does not 'tell'"),
    ("tests/some.py", "def test_a_user_sees_his_tasks() -> None: ...\n", "not 'he'"),
]
GOOD = [
    ("webui/templates/page.html", '<circle class="hub"/><p>GitHub</p>\n'),
    ("webui/locale/de/some.po", 'msgid "Weeks"\nmsgstr "Tell und his"\n'),
    ("webui/some.py", 'PATH = "wallet"\n'),
    ("tests/some.py", 'PATH = "# What his is"\n'),
    ("tests/some.py", 'def some() -> None:  # seconds; None: no limit\n    """Seconds; False if it has none."""\n'),
    ("docs/picture.png", "\N{SNOWMAN} his\n"),
    ("docs/page.md", "`patience.turn` was a function.\n"),
]


def check(folder: Path, name: str, content: str) -> tuple[int, str]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)
    found = subprocess.run(
        [sys.executable, ROOT / ".ci" / "prose.py"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return found.returncode, found.stdout


@pytest.mark.parametrize(("name", "content", "rule"), BAD)
def test_a_text_that_is_hard_to_read_is_found_by_its_place(name: str, content: str, rule: str, tmp_path: Path) -> None:
    status, said = check(tmp_path, name, content)
    assert (status, len(said.splitlines())) == (1, 1)
    assert said.startswith(f"{name}:1: ")
    assert rule in said


@pytest.mark.parametrize(("name", "content"), GOOD)
def test_names_of_the_page_and_translations_are_left_alone(name: str, content: str, tmp_path: Path) -> None:
    assert check(tmp_path, name, content) == (0, "")
