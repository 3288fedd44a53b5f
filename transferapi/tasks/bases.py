"""store_base_path_info: the deepest folder that holds all that a transfer names on one side."""

from __future__ import annotations

import os
from collections.abc import Iterable


def common(paths: Iterable[tuple[str, bool]]) -> str:
    """The folder, with a slash at its end. paths: checked ones, each with whether the user says that it is a folder.

    A folder that is named holds itself; what may be a file lies in the folder above. By the names alone: "/~/" and the
    path of the home have nothing in common.
    """
    folders = {path.rstrip("/") if is_folder else path.rpartition("/")[0] for path, is_folder in paths}
    return os.path.commonpath([f"{folder}/" for folder in folders]).rstrip("/") + "/"


def storable(path: str) -> str:
    """The path as text that a database takes: octets that are no UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
