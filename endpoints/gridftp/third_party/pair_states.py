"""The states of a `ThirdPartyPair` and its transition table. Pure.

A row of `TRANSITIONS` gives, for a state and an input, the next state and the actions, which are done in that order.
A pair of state and input without a row cannot occur, whatever the servers answer: each channel matches replies to
commands in order, and the commands are sent as the table says. `transition` raises ImpossibleInputError for it.
"""

from __future__ import annotations

import enum

from .transitions import transition_of


class PairState(enum.IntEnum):
    """How far the two servers are with their data channel."""

    UNCONNECTED = enum.auto()  # no data channel: MODE S between two files
    LISTENING = enum.auto()  # the destination has been sent PASV, and the source does not have its address yet
    CONNECTED = enum.auto()  # the source has been sent PORT, and is not known to have opened a data connection since
    OPEN = enum.auto()  # the source has opened a data connection
    DRAINING_UNOPENED = enum.auto()  # PASV is on its way to both; no data connection is known to have been opened
    DRAINING = enum.auto()  # PASV is on its way to both
    STUCK = enum.auto()  # only the source has answered PASV, and perhaps it opened no data connection: rule 3
    SOURCE_CLOSED = enum.auto()  # only the source has answered PASV
    DESTINATION_CLOSED = enum.auto()  # only the destination has answered PASV
    LOST = enum.auto()


#: Files may be sent.
FLOWING = frozenset({PairState.UNCONNECTED, PairState.LISTENING, PairState.CONNECTED, PairState.OPEN})
#: The source may be sent its RETR.
ADDRESSED = frozenset({PairState.CONNECTED, PairState.OPEN})


class PairInput(enum.IntEnum):
    FILE_GIVEN = enum.auto()  # by the caller
    STREAMS_CHANGED = enum.auto()  # by the caller, while no file is under way; MODE E only
    ADDRESS_NEEDED = enum.auto()  # the next file needs a new data channel
    ADDRESS = enum.auto()  # the destination answered the newest PASV with an allowed address
    DATA_OPENED = enum.auto()  # the source answered a RETR with 125 or 150
    SIDE_SUCCEEDED = enum.auto()  # one side answered its STOR or RETR with success
    SIDE_FAILED = enum.auto()  # one side refused its STOR or RETR, or the REST before it
    SOURCE_ANSWERED = enum.auto()  # the source answered the PASV of a drain
    LOSS = enum.auto()  # a control connection is lost, a server refused the setup, or the driver gives up


class PairAction(enum.IntEnum):
    ADVANCE = enum.auto()  # send the waiting files
    SET_STREAMS = enum.auto()  # OPTS RETR Parallelism to the source
    LISTEN = enum.auto()  # PASV to the destination
    CONNECT = enum.auto()  # PORT to the source, then RETR for each file whose STOR is sent already
    SETTLE = enum.auto()  # settle the files at the head of the queue that both sides moved
    DRAIN = enum.auto()  # rule 2: PASV to both sides
    FLUSH = enum.auto()  # rule 3: ask the driver to free the destination
    GIVE_BACK = enum.auto()  # give the unsettled files back
    RESUME = enum.auto()  # MODE E: use the destination's new address; MODE S: send the next file
    LOSE = enum.auto()  # rule 4: give everything back
    RETURN_WAITING = enum.auto()  # give the files back that were never sent


S, I, A = PairState, PairInput, PairAction  # noqa: E741 - the table is read in columns

TRANSITIONS: dict[tuple[PairState, PairInput], tuple[PairState, tuple[PairAction, ...]]] = {
    (S.UNCONNECTED, I.FILE_GIVEN): (S.UNCONNECTED, (A.ADVANCE,)),
    (S.UNCONNECTED, I.ADDRESS_NEEDED): (S.LISTENING, (A.LISTEN,)),
    (S.UNCONNECTED, I.ADDRESS): (S.CONNECTED, (A.CONNECT, A.ADVANCE)),
    (S.UNCONNECTED, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.LISTENING, I.FILE_GIVEN): (S.LISTENING, (A.ADVANCE,)),
    (S.LISTENING, I.STREAMS_CHANGED): (S.LISTENING, (A.SET_STREAMS,)),
    (S.LISTENING, I.ADDRESS_NEEDED): (S.LISTENING, (A.LISTEN,)),
    (S.LISTENING, I.ADDRESS): (S.CONNECTED, (A.CONNECT, A.ADVANCE)),
    (S.LISTENING, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.CONNECTED, I.FILE_GIVEN): (S.CONNECTED, (A.ADVANCE,)),
    # The toolkit's server applies the number when it receives PORT: without a second one it keeps its one stream.
    (S.CONNECTED, I.STREAMS_CHANGED): (S.CONNECTED, (A.SET_STREAMS, A.CONNECT)),
    (S.CONNECTED, I.ADDRESS_NEEDED): (S.LISTENING, (A.LISTEN,)),
    (S.CONNECTED, I.DATA_OPENED): (S.OPEN, ()),
    (S.CONNECTED, I.SIDE_SUCCEEDED): (S.CONNECTED, (A.SETTLE, A.ADVANCE)),
    (S.CONNECTED, I.SIDE_FAILED): (S.DRAINING_UNOPENED, (A.DRAIN, A.SETTLE)),
    (S.CONNECTED, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.OPEN, I.FILE_GIVEN): (S.OPEN, (A.ADVANCE,)),
    (S.OPEN, I.STREAMS_CHANGED): (S.LISTENING, (A.SET_STREAMS, A.LISTEN)),
    (S.OPEN, I.ADDRESS_NEEDED): (S.LISTENING, (A.LISTEN,)),
    (S.OPEN, I.DATA_OPENED): (S.OPEN, ()),
    (S.OPEN, I.SIDE_SUCCEEDED): (S.OPEN, (A.SETTLE, A.ADVANCE)),
    (S.OPEN, I.SIDE_FAILED): (S.DRAINING, (A.DRAIN, A.SETTLE)),
    (S.OPEN, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.DRAINING_UNOPENED, I.FILE_GIVEN): (S.DRAINING_UNOPENED, ()),
    (S.DRAINING_UNOPENED, I.ADDRESS): (S.DESTINATION_CLOSED, ()),
    (S.DRAINING_UNOPENED, I.DATA_OPENED): (S.DRAINING, ()),
    (S.DRAINING_UNOPENED, I.SIDE_SUCCEEDED): (S.DRAINING_UNOPENED, (A.SETTLE,)),
    (S.DRAINING_UNOPENED, I.SIDE_FAILED): (S.DRAINING_UNOPENED, (A.SETTLE,)),
    (S.DRAINING_UNOPENED, I.SOURCE_ANSWERED): (S.STUCK, (A.FLUSH,)),
    (S.DRAINING_UNOPENED, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.DRAINING, I.FILE_GIVEN): (S.DRAINING, ()),
    (S.DRAINING, I.ADDRESS): (S.DESTINATION_CLOSED, ()),
    (S.DRAINING, I.DATA_OPENED): (S.DRAINING, ()),
    (S.DRAINING, I.SIDE_SUCCEEDED): (S.DRAINING, (A.SETTLE,)),
    (S.DRAINING, I.SIDE_FAILED): (S.DRAINING, (A.SETTLE,)),
    (S.DRAINING, I.SOURCE_ANSWERED): (S.SOURCE_CLOSED, ()),
    (S.DRAINING, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    # One connection frees the destination from one accept(): its next file waits in the next one.
    (S.STUCK, I.FILE_GIVEN): (S.STUCK, ()),
    (S.STUCK, I.ADDRESS): (S.UNCONNECTED, (A.GIVE_BACK, A.RESUME)),
    (S.STUCK, I.SIDE_SUCCEEDED): (S.STUCK, (A.FLUSH, A.SETTLE)),
    (S.STUCK, I.SIDE_FAILED): (S.STUCK, (A.FLUSH, A.SETTLE)),
    (S.STUCK, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.SOURCE_CLOSED, I.FILE_GIVEN): (S.SOURCE_CLOSED, ()),
    (S.SOURCE_CLOSED, I.ADDRESS): (S.UNCONNECTED, (A.GIVE_BACK, A.RESUME)),
    (S.SOURCE_CLOSED, I.SIDE_SUCCEEDED): (S.SOURCE_CLOSED, (A.SETTLE,)),
    (S.SOURCE_CLOSED, I.SIDE_FAILED): (S.SOURCE_CLOSED, (A.SETTLE,)),
    (S.SOURCE_CLOSED, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    (S.DESTINATION_CLOSED, I.FILE_GIVEN): (S.DESTINATION_CLOSED, ()),
    (S.DESTINATION_CLOSED, I.DATA_OPENED): (S.DESTINATION_CLOSED, ()),
    (S.DESTINATION_CLOSED, I.SIDE_SUCCEEDED): (S.DESTINATION_CLOSED, (A.SETTLE,)),
    (S.DESTINATION_CLOSED, I.SIDE_FAILED): (S.DESTINATION_CLOSED, (A.SETTLE,)),
    (S.DESTINATION_CLOSED, I.SOURCE_ANSWERED): (S.UNCONNECTED, (A.GIVE_BACK, A.RESUME)),
    (S.DESTINATION_CLOSED, I.LOSS): (S.LOST, (A.LOSE,)),
    #
    # Replies that arrive after the loss are not inputs: `PairBase.handle` passes them over.
    (S.LOST, I.FILE_GIVEN): (S.LOST, (A.RETURN_WAITING,)),
    (S.LOST, I.STREAMS_CHANGED): (S.LOST, ()),
}


transition = transition_of(TRANSITIONS, PairState, PairInput)
