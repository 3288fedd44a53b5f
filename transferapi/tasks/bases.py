"""The deepest folder that contains all paths of one side of a transfer (option store_base_path_info)."""

from __future__ import annotations

import os
from collections.abc import Iterable


def common(paths: Iterable[tuple[str, bool]]) -> str:
    """The deepest common folder, with a trailing slash. paths: each with whether the user marks it as a folder.

    A path that is marked as a folder contains itself; any other lies in the folder above. Only the names are compared:
    "/~/" and the path of the home folder have nothing in common.
    """
    found: str | None = None
    for path, is_folder in paths:
        folder = (path.rstrip("/") if is_folder else path.rpartition("/")[0]) + "/"
        if found is None:
            found = folder
        elif not folder.startswith(found):
            found = os.path.commonpath([found, folder]).rstrip("/") + "/"
    return found or "/"
