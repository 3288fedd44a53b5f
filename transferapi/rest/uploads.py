"""Files in forms: there are none, and nobody may fill a disk with them."""

from __future__ import annotations

from typing import Any, NoReturn

from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadhandler import FileUploadHandler


class NoFiles(FileUploadHandler):
    """Refuses the first one (400), before anything of it is kept."""

    def new_file(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise SuspiciousOperation("No form here takes files")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        return None

    def file_complete(self, file_size: int) -> None:
        return None
