"""The states of a file in a `ListeningSourcePair` and their transition table. Pure.

A row of `TRANSITIONS` gives, for a state and an input, the next state and the actions, which are done in that order.
A pair of state and input without a row cannot occur, whatever the servers answer: each channel matches replies to
commands in order, and the destination is sent STOR only after the source has answered PASV.
"""

from __future__ import annotations

import enum

from .transitions import transition_of


class ListeningState(enum.IntEnum):
    """How far a file is."""

    ASKED = enum.auto()  # the source has been sent PASV and RETR; the destination knows nothing of the file
    MOVING = enum.auto()  # the source has answered PASV, and the destination has been sent PORT and STOR
    RETRIEVED = enum.auto()  # only the source has answered, with success or not
    STORED = enum.auto()  # only the destination has answered, with success or not
    ANSWERED = enum.auto()  # both have answered, and answers to PASV may be missing: rule 1
    RENAMING = enum.auto()  # moved; the destination has been sent RNFR and RNTO
    CLEANING = enum.auto()  # not moved; the destination has been sent DELE
    ENDED = enum.auto()  # given back


#: Two servers may be at work on the file's octets.
UNDER_WAY = frozenset(ListeningState) - {ListeningState.RENAMING, ListeningState.CLEANING, ListeningState.ENDED}


class ListeningInput(enum.IntEnum):
    ADDRESS = enum.auto()  # the source answered the PASV of the file with an allowed address
    SOURCE_ANSWERED = enum.auto()  # the source answered RETR
    DESTINATION_SUCCEEDED = enum.auto()  # the destination answered STOR with success
    DESTINATION_FAILED = enum.auto()  # the destination refused STOR, or the REST before it
    MOVED = enum.auto()  # the octets are the file's own, under its final name
    MOVED_ASIDE = enum.auto()  # the octets are the file's own, under a name of ours
    NOT_MOVED = enum.auto()  # nothing is at the destination that must go
    SPOILED = enum.auto()  # octets of another file may be under the file's name
    REMOVED = enum.auto()  # the destination answered DELE
    LOSS = enum.auto()  # a control connection is lost, a server refused the setup, or the driver gives up


class ListeningAction(enum.IntEnum):
    CONNECT = enum.auto()  # PORT and STOR to the destination
    COUNT_PORTS = enum.auto()  # rule 1: the file waits for the answers to all PASV that have been sent
    FLUSH = enum.auto()  # rule 2: ask the driver to free the source
    JUDGE = enum.auto()  # rule 1: whose the octets are, where all answers are there
    SETTLE = enum.auto()  # give the file back as moved
    RENAME = enum.auto()  # RNFR and RNTO to the destination
    REMOVE = enum.auto()  # DELE to the destination
    GIVE_BACK = enum.auto()  # give the file back as not moved
    ADVANCE = enum.auto()  # send the waiting files


S, I, A = ListeningState, ListeningInput, ListeningAction  # noqa: E741 - the table is read in columns

TRANSITIONS: dict[tuple[ListeningState, ListeningInput], tuple[ListeningState, tuple[ListeningAction, ...]]] = {
    (S.ASKED, I.ADDRESS): (S.MOVING, (A.CONNECT,)),
    (S.ASKED, I.LOSS): (S.ENDED, ()),
    #
    (S.MOVING, I.SOURCE_ANSWERED): (S.RETRIEVED, ()),
    (S.MOVING, I.DESTINATION_SUCCEEDED): (S.STORED, (A.COUNT_PORTS,)),
    (S.MOVING, I.DESTINATION_FAILED): (S.STORED, (A.COUNT_PORTS, A.FLUSH)),
    (S.MOVING, I.LOSS): (S.ENDED, ()),
    #
    (S.RETRIEVED, I.DESTINATION_SUCCEEDED): (S.ANSWERED, (A.COUNT_PORTS, A.JUDGE)),
    (S.RETRIEVED, I.DESTINATION_FAILED): (S.ANSWERED, (A.COUNT_PORTS, A.JUDGE)),
    (S.RETRIEVED, I.LOSS): (S.ENDED, ()),
    #
    (S.STORED, I.SOURCE_ANSWERED): (S.ANSWERED, (A.JUDGE,)),
    (S.STORED, I.LOSS): (S.ENDED, ()),
    #
    (S.ANSWERED, I.MOVED): (S.ENDED, (A.SETTLE, A.ADVANCE)),
    (S.ANSWERED, I.MOVED_ASIDE): (S.RENAMING, (A.RENAME, A.ADVANCE)),
    (S.ANSWERED, I.NOT_MOVED): (S.ENDED, (A.GIVE_BACK, A.ADVANCE)),
    (S.ANSWERED, I.SPOILED): (S.CLEANING, (A.REMOVE, A.ADVANCE)),
    (S.ANSWERED, I.LOSS): (S.ENDED, ()),
    #
    (S.RENAMING, I.MOVED): (S.ENDED, (A.SETTLE,)),
    (S.RENAMING, I.NOT_MOVED): (S.ENDED, (A.GIVE_BACK,)),
    (S.RENAMING, I.SPOILED): (S.CLEANING, (A.REMOVE,)),
    (S.RENAMING, I.LOSS): (S.ENDED, ()),
    #
    (S.CLEANING, I.REMOVED): (S.ENDED, (A.GIVE_BACK,)),
    (S.CLEANING, I.LOSS): (S.ENDED, ()),
}

transition = transition_of(TRANSITIONS, ListeningState, ListeningInput)
