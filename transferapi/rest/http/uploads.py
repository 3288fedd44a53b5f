"""Refuses files in forms: no route takes them, and they could fill a disk."""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.files.uploadhandler import FileUploadHandler


class NoFiles(FileUploadHandler):
    """Refuses the first file (400) before any part of it is stored, and a long form before any part of it is read."""

    def handle_raw_input(
        self,
        input_data: Any,
        META: dict[str, Any],  # noqa: N803 - Django's name
        content_length: int,
        boundary: str,
        encoding: str | None = None,
    ) -> None:
        """Refuse by length: Django counts the octets of such a form only while it reads it."""
        if content_length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig(f"A form has at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} octets")

    def new_file(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise SuspiciousOperation("No form here takes files")
