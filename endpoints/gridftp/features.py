"""The features of a server, by its answer to FEAT (RFC 2389), and the peculiarities that follow from them. Pure.

The toolkit's server names its storage interface in FEAT (`DSI file-13.24`), which no other server does; striped
(`DSI remote`) it stands before data nodes of its own (GFD.20). Where it differs from the standards, or from other
servers, a property of `Features` says so: nothing else in this package asks which server it talks to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Checksums that the data nodes of a striped toolkit server make; its front end does not name them in FEAT.
FRONT_END_ALGORITHMS = ("MD5", "ADLER32", "SHA1", "SHA256", "SHA512")
#: Of servers that store files in a file system of their own. Other storage of the toolkit's server (DSI of iRODS or
#: HPSS) confirms what it has only queued.
_SURE = ("WAYBILL REPLACE", "DSI file", "DSI remote")


@dataclass(frozen=True, slots=True)
class Features:
    """`"MLSC" in features`: whether the server knows the command. By default: a server that does not answer FEAT."""

    names: frozenset[str] = frozenset()
    #: The checksum algorithms of CKSM, the one that the server prefers first.
    algorithms: Sequence[str] = ()
    #: The facts of a listing distinguish a symlink to a folder from a folder (UNIX.slink).
    reports_links: bool = False
    #: The toolkit's server before data nodes of its own.
    striped: bool = False
    #: Our server, which knows SITE WAYBILL REPLACE: it gives a file its real name in one command.
    replaces: bool = False
    #: Its MLST and MLSD lack the type or the size, without which an entry is not known.
    lacks_facts: bool = False
    #: It removes what it confirms: our server, and the toolkit's on the files of its host or of data nodes.
    removes_surely: bool = False

    @classmethod
    def parse(cls, lines: Sequence[bytes]) -> Features:
        """The lines of FEAT between the first and the last one: a name, and then its parameters."""
        features = [line.strip().decode("ascii", "replace") for line in lines]
        striped = any(feature.startswith("DSI remote") for feature in features)
        return cls(
            names=frozenset(feature.partition(" ")[0].upper() for feature in features),
            algorithms=_algorithms(features) or (FRONT_END_ALGORITHMS if striped else ()),
            reports_links=any("unix.slink" in feature.lower() for feature in features),
            striped=striped,
            replaces="WAYBILL REPLACE" in features,
            lacks_facts=any(_lacks_facts(feature) for feature in features),
            removes_surely=any(feature.startswith(_SURE) for feature in features),
        )

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def toolkit(self) -> bool:
        """Whether this is the toolkit's server."""
        return "DSI" in self.names

    @property
    def lists_facts(self) -> bool:
        """Whether FEAT names a command for facts in a fixed form; else it is tried, unless it `lacks_facts`."""
        return not self.lacks_facts and not self.names.isdisjoint({"MLST", "MLSD", "MLSC"})

    def eight_bit_clean(self, *, protected: bool) -> bool:
        """Whether names beyond ASCII reach the server.

        The toolkit's server announces UTF8, and yet strips octets above 127 from clear-text commands; over ssh, too.
        """
        return "UTF8" in self.names and (protected or not self.toolkit)

    @property
    def resolves_links(self) -> bool:
        """Whether UNIX.slink is the full path that a symlink leads to in the end, rather than its text."""
        return self.toolkit

    @property
    def restricts_by_patterns(self) -> bool:
        """Whether SITE RESTRICT takes patterns of fnmatch(3) (see `restriction`)."""
        return self.toolkit

    @property
    def restricts_whole_only(self) -> bool:
        """Whether SITE RESTRICT keeps a session within folders by their names only, and the data nodes follow links."""
        return self.striped

    @property
    def links_from_session_folder(self) -> bool:
        """Whether SITE SYMLINKFROM takes a relative target from the session's folder, not from the link's."""
        return self.toolkit


def _lacks_facts(feature: str) -> bool:
    """Whether this is the line of MLST (RFC 3659 section 7.8), and names facts without the type or the size."""
    word, _, rest = feature.partition(" ")
    facts = {fact.strip().rstrip("*").lower() for fact in rest.split(";")} - {""}
    return word.upper() == "MLST" and bool(facts) and not facts >= {"type", "size"}


def _algorithms(features: Sequence[str]) -> Sequence[str]:
    """The line `CKSM MD5:10;SHA1:10;SHA256:11;` of FEAT: names with their preference, the lowest first."""
    for feature in features:
        word, _, rest = feature.partition(" ")
        if word.upper() == "CKSM":
            pairs = (part.strip().partition(":")[::2] for part in rest.split(";") if part.strip())
            known = [(int(rank) if rank.isdigit() else 99, name.strip().upper()) for name, rank in pairs]
            return [name for _, name in sorted(known, key=lambda pair: pair[0])]
    return ()
