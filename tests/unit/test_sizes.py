"""The bounds of folders and modules. That of functions is ruff's (C901 in pyproject.toml)."""

from __future__ import annotations

from collections import Counter

import pytest

from docs.draw.imports import modules, package, packages

#: Modules side by side in one folder, its `__init__.py` apart; and lines of a module.
MOST_MODULES, MOST_LINES = 16, 400

_IN_FOLDER = Counter(package(name) for name, path in modules().items() if path.name != "__init__.py")


@pytest.mark.parametrize("folder", packages())
def test_a_folder_shows_what_is_in_it(folder: str) -> None:
    assert _IN_FOLDER[folder] <= MOST_MODULES, f"make a folder inside {folder}"


@pytest.mark.parametrize("name", modules())
def test_a_module_is_of_one_subject(name: str) -> None:
    assert len(modules()[name].read_text().splitlines()) <= MOST_LINES, f"make two modules of {name}"
