"""A GridFTP server on the standard library alone: what an endpoint of ours runs, and the core of a personal agent.

Control channels run on asyncio; each session has one worker thread that executes its commands in order and moves its
data by sendfile and splice, so that pipelined small files cost no hand-over between threads.

The rule of failing files
-------------------------
In MODE E data connections are kept from file to file (GFD.20), and nothing on them names the file that they carry:
were a RETR or STOR simply answered with an error, its partner's next file would take the octets of another one, with
success on both sides. So, when a transfer on a data channel fails, for whatever reason, even before it began:

- its error reply is sent, all data connections of the session and its listening socket are closed, and
- every later transfer command is refused with 425, until the client opens a new channel by PASV, EPSV, SPAS, PORT,
  EPRT or SPOR.

The other side, whichever server it is, then loses its connections in the middle of what it believes to be the next
file, and fails too: a receiver that we feed sees a connection end without EOD, a sender that feeds us sees a reset or a
refused connection. A sender that fails before it ever connected, connects and hangs up: the receiver would otherwise
wait in accept(). In MODE S, where the end of a connection is the end of the file, a sender that fails midway resets
its connection instead, so that no receiver takes half a file for a whole one.

A client that sees any error on either side knows that what both sides answered with success before it is whole, and
that nothing after it is.
"""

from .limits import Limits
from .server import Server

__all__ = ["Limits", "Server"]
