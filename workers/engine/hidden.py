"""Symlinks to folders, on servers that do not tell them from folders.

RFC 3659 has no fact for symlinks; UNIX.slink is the toolkit's. Nothing that only looks finds such a link: its facts are
those of the folder it leads to, and a server may resolve ".." by the words. But DELE removes a link and is refused for
a folder, each for certain. So where something is to be removed anyway, it is asked that before it is looked into.
"""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, Kind

from .ports import Session


async def unlink_hidden(session: Session, folders: Sequence[str]) -> dict[str, Fault | None]:
    """Of these folders, which are to be removed, those that must not be looked into.

    None: it was a symlink, or was gone already; it is gone now. A fault: nobody knows what it is, since the answer was
    not that it is a folder. Empty where the server tells links by itself.
    """
    if session.tells_links or not folders:
        return {}
    faults = await session.remove([(path, False) for path in folders])
    answers = dict(zip(folders, faults, strict=True))
    gone = {path: None for path, fault in answers.items() if fault is None or fault.kind is Kind.FILE_NOT_FOUND}
    unknown = {path: fault for path, fault in answers.items() if fault and fault.kind not in _ANSWERS}
    return {**gone, **unknown}


async def tells_links(session: Session) -> bool:
    """`Session.tells_links`, to be asked at a desk."""
    return session.tells_links


#: It is a folder; or it is not there.
_ANSWERS = frozenset({Kind.IS_A_DIRECTORY, Kind.FILE_NOT_FOUND})
