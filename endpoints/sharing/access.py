"""The paths of an endpoint that a user may read and write, and their paths on the host: only this module maps them.

A shared endpoint shows a folder of its host. Its users need no credential: the credential of the endpoint's owner is
used on the host's servers, for paths that a rule allows. On other endpoints the server decides, by the user's own
credential.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from endpoints.errors import NotPermittedError, PathNotPermittedError
from endpoints.gridftp.restriction import AllowedPath
from endpoints.models import Endpoint
from endpoints.permissions import READING, Permission, active_rules, has_full_access, may
from identity.models import User

#: Rules that one session is confined to; their paths are sent in one line.
MANY = 40


@dataclass(frozen=True, slots=True)
class Access:
    """The access of one user to one endpoint, at one time."""

    endpoint: Endpoint
    #: The endpoint whose servers are used; the endpoint itself when it is not shared.
    host: Endpoint
    #: The user whose credential is used.
    actor_id: uuid.UUID
    #: Prefix of the endpoint's paths on the host: "", or a folder without the slash at its end.
    root: str = ""
    #: None: the whole endpoint.
    allowed_paths: tuple[AllowedPath, ...] | None = None

    @property
    def shared(self) -> bool:
        return self.endpoint.host_id is not None

    def allows(self, path: str, *, write: bool) -> bool:
        """Whether a rule covers this path, as users name it. Symbolic links are checked by `confinement` only."""
        if not self.shared:
            return True
        inner = from_root(path)
        if not self._stays(inner):
            return False
        if self.allowed_paths is None:
            return True
        folder = inner.rstrip("/") + "/"
        return any(
            folder.startswith(allowed_path.path) and (allowed_path.write or not write)
            for allowed_path in self.allowed_paths
        )

    def _stays(self, inner: str) -> bool:
        """Whether the text of the path stays below the root. On a host that is shared whole, "/~/" is a home folder."""
        homeward = not self.root and from_root(inner) != inner
        return inner.startswith("/") and ".." not in inner.split("/") and not homeward

    def check(self, path: str, *, write: bool) -> None:
        """Check that the rules allow the path. Raises PathNotPermittedError."""
        if not self.allows(path, write=write):
            raise PathNotPermittedError(self.endpoint, path)

    def real(self, path: str) -> str:
        """The path on the host's servers. Raises PathNotPermittedError when its text leaves the root."""
        if not self.shared:
            return path
        inner = from_root(path)
        if not self._stays(inner):
            raise PathNotPermittedError(self.endpoint, path)
        return self.root + inner

    def shown(self, path: str) -> str:
        """The reverse: a path on the host, as users of this endpoint name it; "/" for a path outside of the share."""
        if not self.shared:
            return path
        if not f"{path}/".startswith(f"{self.root}/"):
            return "/"
        return path[len(self.root) :] or "/"

    def folders(self, paths: Sequence[str] = ()) -> list[AllowedPath]:
        """The folders of the host that a session is confined to (`GridFTPSession.restrict`); for shared endpoints only.

        paths: the paths of the operation, as users name them: with more than MANY rules, those that do not cover them
        are left out.
        """
        if self.allowed_paths is None:
            return [AllowedPath(self.root + "/", write=True)]
        allowed_paths: Sequence[AllowedPath] = self.allowed_paths
        if paths and len(allowed_paths) > MANY:
            folders = [from_root(path).rstrip("/") + "/" for path in paths]
            allowed_paths = [one for one in allowed_paths if any(folder.startswith(one.path) for folder in folders)]
        return [AllowedPath(self.root + allowed_path.path, allowed_path.write) for allowed_path in allowed_paths]


def of(user: User, endpoint: Endpoint, verb: Permission) -> Access:
    """Raises NotPermittedError. Needs the endpoint with owner, host and the host's owner (`registry.resolve`)."""
    if not may(user, verb, endpoint):
        raise NotPermittedError(verb, endpoint)
    if endpoint.host is None:
        return Access(endpoint, endpoint, user.pk)
    root = endpoint.host_path.rstrip("/")
    if has_full_access(user, endpoint):
        return Access(endpoint, endpoint.host, endpoint.owner_id, root)
    rules = [rule for rule in active_rules(user, endpoint) if verb in READING or rule.permissions == "rw"]
    allowed_paths = tuple(AllowedPath(rule.path, rule.permissions == "rw") for rule in rules)
    return Access(endpoint, endpoint.host, endpoint.owner_id, root, allowed_paths)


def from_root(path: str) -> str:
    """`/~/` means the root of a shared endpoint, for all its users."""
    if path == "/~":
        return "/"
    return path[2:] if path.startswith("/~/") else path
