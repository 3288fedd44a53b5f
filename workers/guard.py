"""The keeper of one shared endpoint in one slice: which paths its rules cover by now, and what users see of its host.

Three things keep a task within what is shared with its owner. The words of each path are checked here, against rules
that are read again with every heartbeat: what they do not cover any more ends the task at its next file. The server
itself keeps each session within the folders of those rules, wherever symlinks lead (`GridFTPSession.restrict`). And
what comes back, links and faults, is told by the names of the shared endpoint.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from endpoints.access import Access
from endpoints.confinement import Confinement, LeadsOutError, LinksUntoldError, placed
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.gridftp.restriction import Ground
from endpoints.registry import canonical_name
from workers.pool import Door

#: Paths of files that were fed: what is under way comes to its end, checksums and all.
MAX_FED = 20_000
WITHDRAWN = "No access rule of the shared endpoint {} covers {} any more: it was withdrawn, or has expired."
LED_OUT = (
    "The folders that the access rules of the shared endpoint {} give are, or lie behind, a symbolic link that leads"
    " out of what is shared."
)
NO_FILE = "An access rule is for {}, as a folder: a file cannot be written in its place."
OVER = "The shared endpoint {} is not there any more for the owner of the task, who asked for {}."
#: Of one who has told a server who he is: not for those who use what he shares.
_OF_CREDENTIALS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS, Kind.INVALID_SERVICE_CREDENTIAL, Kind.GSI_DN_MISMATCH})


class Guard:
    """One shared side of a slice. `refresh` runs in a thread of the store's, all else on the loop.

    look: reads the rules anew; None: the endpoint may not be used at all any more.
    foreign: the credential is another user's than the owner's of the task.
    """

    def __init__(
        self, access: Access, side: Side, look: Callable[[], Access | None], *, write: bool, foreign: bool
    ) -> None:
        self.side = side
        self._first = self._now = access
        self._look = look
        self._over = False
        self._write = write
        self._foreign = foreign
        self._name = canonical_name(access.endpoint)
        #: Names that nobody is told.
        self._hidden: Sequence[str] = ()
        self._hide(access.root)
        self._fed: OrderedDict[str, None] = OrderedDict()

    def refresh(self) -> None:
        """Read the rules anew: what they do not give from now on is refused."""
        found = self._look()
        self._over = found is None
        self._now = found or replace(self._first, grounds=())

    # ---- what is asked for

    def real(self, path: str, *, fed: bool = False) -> str:
        """A path of the task, as the host's servers know it. fed: also of what is under way. Raises FaultError."""
        if not self._now.allows(path, write=self._write) and not (fed and path in self._fed):
            raise FaultError(self._refusal(path))
        return self._first.real(path)

    def feed(self, path: str) -> str:
        """The same for a file that is about to be moved; what belongs to it is not asked for again."""
        real = self.real(path)
        if self._write and not self._now.allows(f"{path.rpartition('/')[0]}/", write=True):
            raise FaultError(Fault(Kind.PERMISSION_DENIED, self.side, retryable=False, advice=NO_FILE.format(path)))
        self._fed[path] = None
        if len(self._fed) > MAX_FED:
            self._fed.popitem(last=False)
        return real

    def _refusal(self, path: str) -> Fault:
        """A folder above those that were shared was never the task's: somebody else has to make it."""
        if not self._first.allows(path, write=self._write) and self._is_above(path):
            advice = f"This folder is not shared with you, and what is shared in it is not there: {path}"
            return Fault(Kind.PERMISSION_DENIED, self.side, advice=advice)
        text = OVER if self._over else WITHDRAWN
        return Fault(Kind.ACL_CHANGED, self.side, retryable=False, advice=text.format(self._name, path))

    def _is_above(self, path: str) -> bool:
        folder = path.rstrip("/") + "/"
        return any(ground.path.startswith(folder) for ground in self._now.grounds or ())

    # ---- sessions

    def door(self, door: Door) -> Door:
        """For sessions that the server keeps within what is shared. Raises FaultError when that is nothing any more."""
        fence = self.fence()
        if not fence:
            raise FaultError(self._refusal("/"))
        told = hashlib.blake2b(repr(fence).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return replace(door, key=f"{door.key} within {told}", confine=self._confining(fence))

    def _confining(self, fence: Sequence[Ground]) -> Callable[[GridFTPSession], Awaitable[None]]:
        """Resolves the folders for each session anew: a symlink may have taken the place of one meanwhile."""
        access = self._now
        allows = None if access.grounds is None else partial(access.allows, write=self._write)

        async def confine(session: GridFTPSession) -> None:
            try:
                session.places = await Confinement(access.root, allows).enter(session, fence)
            except LinksUntoldError as error:
                raise FaultError(replace(error.fault, kind=Kind.UNSUPPORTED, scope=Scope.ENDPOINT)) from None
            except LeadsOutError:
                why = LED_OUT.format(self._name)
                fault = Fault(Kind.ACL_CHANGED, self.side, retryable=False, scope=Scope.ENDPOINT, advice=why)
                raise FaultError(fault) from None
            except FaultError as error:
                if self._foreign and error.fault.scope is Scope.FILE:
                    # The server's own words name paths of the host, those behind links included.
                    raise FaultError(replace(error.fault, raw="")) from None
                raise

        return confine

    def fence(self) -> tuple[Ground, ...]:
        """The folders of the rules, without those that lie in others."""
        access = self._now
        if access.grounds is None:
            return (Ground(f"{access.root}/", self._write),)
        paths = sorted({ground.path for ground in access.grounds if ground.write or not self._write})
        outer: list[str] = []
        for path in paths:
            if not (outer and path.startswith(outer[-1])):
                outer.append(path)
        return tuple(Ground(f"{access.root}{path}", self._write) for path in outer)

    # ---- what comes back

    def confinement(self, session: GridFTPSession) -> Confinement:
        """For the links that this session tells of: they lead to paths of the share, or to nowhere that is told."""
        root = placed(self._first.root, session.places)
        self._hide(root)
        return Confinement(root)

    @property
    def deletes(self) -> bool:
        """What its paths name is removed, and not what they lead to."""
        return self._write and self.side is Side.SOURCE

    @property
    def follows_links(self) -> bool:
        """Whether links are told by the paths that they lead to in the end: all of a server needs no confinement."""
        return bool(self._first.root)

    def is_root(self, real: str) -> bool:
        return real.rstrip("/") == self._first.root

    def told(self, fault: Fault) -> Fault:
        """Without the names of the host's folders, and without what its servers say of somebody else's credential."""
        if self._foreign and fault.kind in _OF_CREDENTIALS:
            return replace(fault, raw="").at(self.side)
        for root in self._hidden:
            fault = replace(fault, raw=_stripped(fault.raw, root), advice=_stripped(fault.advice, root))
        return fault.at(self.side)

    def know_home(self, home: str) -> None:
        """A root that is named by the home of an account has a second name, which servers use."""
        root = self._first.root
        if root == "/~" or root.startswith("/~/"):
            self._hide(home.rstrip("/") + root[2:])

    def _hide(self, root: str) -> None:
        """The longest first: one may begin with another."""
        if root.strip("/") and root not in self._hidden:
            self._hidden = sorted([*self._hidden, root], key=len, reverse=True)


def _stripped(text: str, root: str) -> str:
    return text.replace(f"{root}/", "/").replace(root, "/")
