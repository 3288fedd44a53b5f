"""Over SFTP a file is opened before folders are made for it."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from endpoints.gridftp.faults import FaultError, Kind
from tests.gridftp.lying_sftp import LyingSftp, lying


class Refusing(LyingSftp):
    """It opens no file with this name, whoever asks; root may read every file."""

    opened = 0
    closed = 0

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        if path.endswith(b"secret"):
            raise asyncssh.SFTPPermissionDenied("Permission denied")
        type(self).opened += 1
        return super().open(path, pflags, attrs)

    def close(self, file_obj: object) -> None:
        type(self).closed += 1
        super().close(file_obj)


async def test_a_file_is_opened_and_closed_and_a_refusal_is_a_fault(tmp_path: Path) -> None:
    for name in ("file", "empty", "secret"):
        (tmp_path / name).write_bytes(b"x" if name == "file" else b"")
    async with lying(tmp_path, Refusing) as end:
        session = await end.login.open_session(end.host, end.port)  # type: ignore[attr-defined]
        for name in ("file", "empty"):
            await session.check_readable(f"{tmp_path}/{name}")
        with pytest.raises(FaultError) as refused:
            await session.check_readable(f"{tmp_path}/secret")
        assert refused.value.fault.kind is Kind.PERMISSION_DENIED
        assert (await session.stat(f"{tmp_path}/file")).size == 1
        assert session.usable
        await session.close()
    assert (Refusing.opened, Refusing.closed) == (2, 2)
