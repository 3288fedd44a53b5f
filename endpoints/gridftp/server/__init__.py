"""A GridFTP server that needs the standard library only: for an endpoint of our own, and the core of a personal agent.

Control channels run on asyncio; each session has one worker thread that executes its commands in order and moves its
data by sendfile and splice, so that pipelined small files cost no switch between threads. The commands are in
`commands`, whose page says how to add one.

The rule of failing files
-------------------------
In MODE E data connections are reused from file to file (GFD.20), and nothing on them names the file that they carry: if
a failed RETR or STOR were answered with an error only, the other side's next file would receive the octets of another
one, with success on both sides. So, when a transfer on a data channel fails, for any reason, even before it began:

- its error reply is sent, all data connections of the session and its listening socket are closed, and
- every later transfer command is refused with 425, until the client opens a new channel by PASV, EPSV, SPAS, PORT,
  EPRT or SPOR.

The other side, whichever server it is, then loses its connections during its next file, and fails too: a receiver sees
our connection end without EOD, a sender sees a reset or a refused connection. If we fail as the sender before we ever
connected, we connect and close: the receiver would otherwise wait in accept(). In MODE S, where the end of a connection
is the end of the file, a failing sender resets its connection instead, so that no receiver accepts a part of a file.

A client that sees an error on either side knows that all files before it, with success on both sides, are complete, and
that no file after it is.
"""

from .limits import ServerLimits
from .roots.parts import RootPart
from .security.control_security import ControlSecurity
from .server import GridFtpServer

__all__ = ["ControlSecurity", "GridFtpServer", "RootPart", "ServerLimits"]
