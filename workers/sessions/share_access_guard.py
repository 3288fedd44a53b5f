"""Guards one shared endpoint in one slice: it checks paths against the current rules, and hides the host's names.

Three measures keep a task within what is shared with its owner. Each path is checked here, as text, against rules that
are read again with every heartbeat: a path that they do not cover any more ends the task at its next file. The server
itself keeps each session within the folders of those rules, wherever symlinks lead (`GridFTPSession.restrict`). And
links and faults in the answers are translated to the paths of the shared endpoint.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from endpoints.gridftp.restriction import AllowedPath
from endpoints.registry import canonical_name
from endpoints.sessions.remote import RemoteSession
from endpoints.sharing.access import Access
from endpoints.sharing.confinement import Confinement, LeadsOutError, LinksNotReportedError, resolved_path

from .pool import SessionKey

#: Paths of files given to lanes: files under way may be finished, with their checksums.
MAX_FED = 20_000
WITHDRAWN = "No access rule of the shared endpoint {} covers {} any more: it was withdrawn, or has expired."
LED_OUT = (
    "A folder of the access rules of the shared endpoint {} is, or lies behind, a symbolic link that leads out of the"
    " shared folders."
)
NO_FILE = "An access rule names {} as a folder: a file cannot be written there."
OVER = "The shared endpoint {} is no longer available to the owner of the task, who asked for {}."
#: Faults of a login: they are for the owner of the credential, and not for users of the share.
_OF_CREDENTIALS = frozenset(
    {Kind.AUTH, Kind.NO_CREDENTIALS, Kind.INVALID_SERVICE_CREDENTIAL, Kind.GSI_DN_MISMATCH, Kind.HOST_KEY_CHANGED}
)


class ShareAccessGuard:
    """One shared side of a slice. `refresh` runs in a thread of the store, everything else on the loop.

    read_access: reads the rules again; None: the endpoint may not be used at all any more.
    foreign: the credential belongs to another user than the owner of the task.
    """

    def __init__(
        self, access: Access, side: Side, read_access: Callable[[], Access | None], *, write: bool, foreign: bool
    ) -> None:
        self.side = side
        self._first = self._now = access
        self._read_access = read_access
        self._over = False
        self._write = write
        self._foreign = foreign
        self._name = canonical_name(access.endpoint)
        #: Names that no user may see.
        self._hidden: Sequence[str] = ()
        self._hide(access.root)
        self._fed: OrderedDict[str, None] = OrderedDict()

    def refresh(self) -> None:
        """Read the rules again: paths that they do not cover are refused from now on."""
        found = self._read_access()
        self._over = found is None
        self._now = found or replace(self._first, allowed_paths=())

    # ---- requests

    def real(self, path: str, *, fed: bool = False) -> str:
        """A path of the task as the host's servers know it. fed: also of files under way. Raises FaultError."""
        if not self._now.allows(path, write=self._write) and not (fed and path in self._fed):
            raise FaultError(self._refusal(path))
        return self._first.real(path)

    def feed(self, path: str) -> str:
        """The same for a file that is about to be moved; later requests about this file are not checked again."""
        real = self.real(path)
        if self._write and not self._now.allows(f"{path.rpartition('/')[0]}/", write=True):
            raise FaultError(Fault(Kind.PERMISSION_DENIED, self.side, retryable=False, advice=NO_FILE.format(path)))
        self._fed[path] = None
        if len(self._fed) > MAX_FED:
            self._fed.popitem(last=False)
        return real

    def _refusal(self, path: str) -> Fault:
        """The fault of a path that no rule covers. A parent of a shared folder never was the task's to make."""
        if not self._first.allows(path, write=self._write) and self._is_above(path):
            advice = f"This folder is not shared with you, and the shared folder inside it does not exist: {path}"
            return Fault(Kind.PERMISSION_DENIED, self.side, advice=advice)
        text = OVER if self._over else WITHDRAWN
        return Fault(Kind.ACL_CHANGED, self.side, retryable=False, advice=text.format(self._name, path))

    def _is_above(self, path: str) -> bool:
        folder = path.rstrip("/") + "/"
        return any(allowed_path.path.startswith(folder) for allowed_path in self._now.allowed_paths or ())

    # ---- sessions

    def session_key(self, session_key: SessionKey) -> SessionKey:
        """The key of sessions that are confined to the allowed folders. Raises FaultError when there are none."""
        allowed_folders = self.allowed_folders()
        if not allowed_folders:
            raise FaultError(self._refusal("/"))
        digest = hashlib.blake2b(repr(allowed_folders).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return replace(session_key, key=f"{session_key.key} within {digest}", confine=self._confining(allowed_folders))

    def _confining(self, allowed_folders: Sequence[AllowedPath]) -> Callable[[RemoteSession], Awaitable[None]]:
        """Confine a session. Folders are resolved for each session: a symlink may have replaced one of them."""
        access = self._now
        allows = None if access.allowed_paths is None else partial(access.allows, write=self._write)

        async def confine(session: RemoteSession) -> None:
            try:
                session.places = await Confinement(access.root, allows).confine(session, allowed_folders)
            except LinksNotReportedError as error:
                raise FaultError(replace(error.fault, kind=Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT)) from None
            except LeadsOutError:
                why = LED_OUT.format(self._name)
                fault = Fault(Kind.ACL_CHANGED, self.side, retryable=False, scope=FaultScope.ENDPOINT, advice=why)
                raise FaultError(fault) from None
            except FaultError as error:
                if self._foreign and error.fault.scope is FaultScope.FILE:
                    # The server's reply names paths of the host, also those behind links.
                    raise FaultError(replace(error.fault, raw="")) from None
                raise

        return confine

    def allowed_folders(self) -> tuple[AllowedPath, ...]:
        """The folders of the rules, without those inside others."""
        access = self._now
        if access.allowed_paths is None:
            return (AllowedPath(f"{access.root}/", self._write),)
        paths = sorted(
            {allowed_path.path for allowed_path in access.allowed_paths if allowed_path.write or not self._write}
        )
        outer: list[str] = []
        for path in paths:
            if not (outer and path.startswith(outer[-1])):
                outer.append(path)
        return tuple(AllowedPath(f"{access.root}{path}", self._write) for path in outer)

    # ---- answers

    def confinement(self, session: RemoteSession) -> Confinement:
        """The treatment of links in answers of this session: targets become paths of the share, or links are hidden."""
        root = resolved_path(self._first.root, session.places)
        self._hide(root)
        return Confinement(root)

    @property
    def deletes(self) -> bool:
        """Whether the side removes the entries that its paths name, and not the targets of links."""
        return self._write and self.side is Side.SOURCE

    @property
    def follows_links(self) -> bool:
        """Whether links are shown with their final targets. Only a share of a whole server needs no confinement."""
        return bool(self._first.root)

    def is_root(self, real: str) -> bool:
        return real.rstrip("/") == self._first.root

    def for_user(self, fault: Fault) -> Fault:
        """The fault without names of the host's folders, and without replies about another user's credential."""
        if self._foreign and fault.kind in _OF_CREDENTIALS:
            return replace(fault, raw="").at(self.side)
        for root in self._hidden:
            fault = replace(fault, raw=_stripped(fault.raw, root), advice=_stripped(fault.advice, root))
        return fault.at(self.side)

    def set_home(self, home: str) -> None:
        """Hide the full path of a root that is given relative to the home of an account: servers report it."""
        root = self._first.root
        if root == "/~" or root.startswith("/~/"):
            self._hide(home.rstrip("/") + root[2:])

    def _hide(self, root: str) -> None:
        """The longest name first: one may begin with another."""
        if root.strip("/") and root not in self._hidden:
            self._hidden = sorted([*self._hidden, root], key=len, reverse=True)


def _stripped(text: str, root: str) -> str:
    return text.replace(f"{root}/", "/").replace(root, "/")
