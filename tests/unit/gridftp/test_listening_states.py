"""The transition table of files whose source listens: all pairs of states and inputs, servers that answer anything.

The servers here keep to one rule only, which no server can break: the final reply to a command ends it, and replies
are in the order of the commands. `test_listening_source` has servers that move contents.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from endpoints.gridftp.faults import Side
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party import listening_source
from endpoints.gridftp.third_party.data_path import DataPath
from endpoints.gridftp.third_party.listening_source import ListeningSourcePair
from endpoints.gridftp.third_party.listening_states import (
    TRANSITIONS,
    UNDER_WAY,
    ListeningAction,
    ListeningInput,
    ListeningState,
    transition,
)
from endpoints.gridftp.third_party.pair_states import PairState
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileReturned, FileSettled, Flush, Transfer
from endpoints.gridftp.third_party.transitions import ImpossibleInputError
from tests.gridftp.pair_dialogue import PairDialogue

SIZE = 20 * 2**20
ALL_PAIRS = list(itertools.product(ListeningState, ListeningInput))


@pytest.mark.parametrize(("state", "what"), ALL_PAIRS, ids=lambda one: one.name)
def test_each_pair_of_state_and_input_has_a_row_or_is_impossible(state: ListeningState, what: ListeningInput) -> None:
    if (state, what) in TRANSITIONS:
        assert transition(state, what) == TRANSITIONS[state, what]
    else:
        with pytest.raises(ImpossibleInputError) as caught:
            transition(state, what)
        assert (caught.value.state, caught.value.what) == (state, what)


@pytest.mark.parametrize("state", ListeningState, ids=lambda one: one.name)
def test_a_file_can_be_lost_until_it_is_given_back(state: ListeningState) -> None:
    assert ((state, ListeningInput.LOSS) in TRANSITIONS) == (state is not ListeningState.ENDED)


def test_a_file_comes_back_in_the_step_that_ends_it() -> None:
    back = {ListeningAction.SETTLE, ListeningAction.GIVE_BACK}
    for (_, what), (after, actions) in TRANSITIONS.items():
        ends = after is ListeningState.ENDED and what is not ListeningInput.LOSS
        assert len(back & set(actions)) == int(ends)


def test_octets_of_another_file_are_removed_before_the_file_comes_back() -> None:
    for (_, what), (after, actions) in TRANSITIONS.items():
        spoiled = what is ListeningInput.SPOILED
        assert (ListeningAction.REMOVE in actions) == (after is ListeningState.CLEANING) == spoiled


def test_a_file_is_judged_where_both_have_answered_and_nowhere_else() -> None:
    for after, actions in TRANSITIONS.values():
        assert (ListeningAction.JUDGE in actions) == (after is ListeningState.ANSWERED)


def test_waiting_files_are_sent_when_no_server_is_at_work_on_a_file_any_more() -> None:
    for (state, what), (after, actions) in TRANSITIONS.items():
        is_over = state in UNDER_WAY and after not in UNDER_WAY and what is not ListeningInput.LOSS
        assert (ListeningAction.ADVANCE in actions) == is_over


# ---- servers that answer anything


@dataclass
class SentFile:
    """The commands and replies of one file, as its servers see them. rivals: PASV of others that rule 1 names."""

    port: int | None = None
    answered: set[Side] = field(default_factory=set)
    succeeded: set[Side] = field(default_factory=set)
    failed: set[Side] = field(default_factory=set)
    rivals: set[int] = field(default_factory=set)
    outcome: object = None


class Dialogue(PairDialogue[ListeningSourcePair]):
    """A pair, the commands that its servers have not answered, and what a file may be settled by."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = ListeningSourcePair(
            self.channels[Side.SOURCE],
            self.channels[Side.DESTINATION],
            accept_address=lambda _: True,
            path=DataPath(peer="127.0.0.1", listener=Side.SOURCE, ours=True),
        )
        self.files: list[SentFile] = []
        #: The files of the PASV that have been sent, and how many of these have been answered.
        self.asked: list[int] = []
        self.heard = 0
        #: Ports at which the source waits for a destination that has refused the file.
        self.stuck: list[int] = []
        self.observe()

    def give(self, *, rename: bool, partial: bool, name: bytes = b"") -> None:
        number = len(self.files)
        self.files.append(SentFile())
        self.pair.send(
            Transfer(
                number,
                b"/s/%d" % number,
                b"/d/%d%b" % (number, name),
                SIZE,
                rename_to=b"/final/%d" % number if rename else None,
                ranges=RangeSet([(0, 5 * 2**20)]) if partial else None,
            )
        )
        self.observe()

    # ---- the model

    def note(self, side: Side, reply: bytes) -> None:
        """Record the effect of a reply on its file, before the pair sees it."""
        code = int(reply[:3])
        verb, _, argument = self.commands[side][0].partition(b" ")
        if code == 111 and verb == b"STOR" and b"Marker -" in reply:
            self.files[_number(argument)].failed.add(side)
        if code < 200:
            return
        self.commands[side].popleft()
        if verb == b"PASV" and code == 227:
            self.files[self.asked[self.heard]].port = int(reply.rpartition(b",")[2].partition(b")")[0])
            self.heard += 1
        elif verb == b"REST" and code >= 400:
            following = next(line for line in self.commands[side] if line.startswith((b"STOR", b"RETR")))
            self.files[_number(following)].failed.add(side)
        elif verb in (b"STOR", b"RETR"):
            file = self.files[_number(argument)]
            file.answered.add(side)
            (file.failed if code >= 400 else file.succeeded).add(side)
            if verb == b"STOR":
                self._note_stored(_number(argument))

    def _note_stored(self, number: int) -> None:
        """Rules 1 and 2, when the destination has answered."""
        file = self.files[number]
        file.rivals = set(self.asked[self.asked.index(number) + 1 :])
        if Side.DESTINATION in file.failed and Side.SOURCE not in file.answered:
            assert file.port is not None
            self.stuck.append(file.port)

    def observe(self) -> None:
        """Check what was sent and what came back."""
        for side in (Side.SOURCE, Side.DESTINATION):
            for line in self.channels[side].data_to_send().split(b"\r\n")[:-1]:
                self._sent(side, line)
        for event in self.pair.take():
            self._came_back(event)
        assert not self.stuck or self.pair.state is PairState.LOST, "nothing frees the source"

    def _sent(self, side: Side, line: bytes) -> None:
        assert self.pair.state is not PairState.LOST, f"{line!r} was sent by a pair that is lost"
        if line.startswith(b"RETR"):
            self.asked.append(_number(line))
        elif line.startswith(b"STOR"):
            assert self.files[_number(line)].port is not None, "the destination is asked when the source listens"
        self.commands[side].append(line)

    def _came_back(self, event: object) -> None:
        if isinstance(event, FileProgress):
            return
        if isinstance(event, Flush):
            assert event.port - 4 * 256 == self.stuck.pop(0), "the driver frees the source where it waits"
            return
        assert isinstance(event, FileSettled | FileRefused | FileReturned)
        assert isinstance(event.tag, int)
        file = self.files[event.tag]
        assert file.outcome is None, "a file came back twice"
        file.outcome = event
        if isinstance(event, FileSettled):
            self._check_settled(file)

    def _check_settled(self, file: SentFile) -> None:
        assert file.succeeded == {Side.SOURCE, Side.DESTINATION}
        assert not file.failed
        for rival in file.rivals:
            assert self.files[rival].port is not None, "an answer to PASV is missing"
            assert self.files[rival].port != file.port, "another file's connection may have met this port"


def _number(line: bytes) -> int:
    return int(line.rpartition(b"/")[2])


FINAL = {True: (b"226 ok\r\n", b"250 ok\r\n"), False: (b"550 No such file\r\n", b"500 no\r\n", b"426 broken\r\n")}
PRELIMINARY = (
    b"150 go\r\n",
    b"125 go\r\n",
    b"111 Range Marker 0-5242880\r\n",
    b"111 Range Marker 5242880-9000000\r\n",
    b"111 Range Marker -\r\n",
    b"127 Entering Passive Mode (9,9,9,9,4,1)\r\n",
)
PORTS = tuple(b"227 Entering Passive Mode (127,0,0,1,4,%d)\r\n" % port for port in range(1, 7))


def fitting(verb: bytes, *, success: bool) -> Sequence[bytes]:
    """Final replies to this command. Refusals of the setup commands have a test of their own."""
    if verb == b"PASV":
        return PORTS
    refusable = (b"STOR", b"RETR", b"REST", b"RNFR", b"RNTO", b"DELE", b"TREV", b"OPTS", b"SBUF")
    return FINAL[success or verb not in refusable]


class Dialogues(RuleBasedStateMachine):
    """Hypothesis chooses what the caller asks and what each server answers."""

    @initialize()
    def begin(self) -> None:
        self.dialogue = Dialogue()

    @rule(rename=st.booleans(), partial=st.booleans(), name=st.sampled_from([b""] * 9 + [b"\r\n"]))
    def give(self, rename: bool, partial: bool, name: bytes) -> None:
        self.dialogue.give(rename=rename, partial=partial, name=name)

    @precondition(lambda self: any(self.dialogue.commands.values()))
    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION]), success=st.booleans(), data=st.data())
    def answer(self, side: Side, success: bool, data: st.DataObject) -> None:
        if verb := self.dialogue.next_verb(side):
            self.dialogue.answer(side, data.draw(st.sampled_from(fitting(verb, success=success))))

    @precondition(lambda self: any(self.dialogue.commands.values()))
    @rule(sides=st.lists(st.sampled_from([Side.SOURCE, Side.DESTINATION]), min_size=4, max_size=16), data=st.data())
    def answer_many_with_success(self, sides: list[Side], data: st.DataObject) -> None:
        for side in sides:
            if verb := self.dialogue.next_verb(side):
                if verb in (b"RETR", b"STOR"):
                    self.dialogue.answer(side, b"150 go\r\n")
                self.dialogue.answer(side, data.draw(st.sampled_from(fitting(verb, success=True))))

    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION]), reply=st.sampled_from(PRELIMINARY))
    def report(self, side: Side, reply: bytes) -> None:
        if self.dialogue.next_verb(side) in (b"STOR", b"RETR"):
            self.dialogue.answer(side, reply)

    @precondition(lambda self: len(self.dialogue.files) > 4)
    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION, None]))
    def lose(self, side: Side | None) -> None:
        if side:
            self.dialogue.lose(side)
        else:
            self.dialogue.give_up()

    @invariant()
    def whole(self) -> None:
        """No file is forgotten, and the pair is idle when all are back."""
        if hasattr(self, "dialogue"):
            missing = sum(file.outcome is None for file in self.dialogue.files)
            assert self.dialogue.pair.under_way == missing
            assert self.dialogue.pair.idle == (not missing and self.dialogue.pair.state is not PairState.LOST)

    def teardown(self) -> None:
        """Each file comes back once: at the latest when the driver gives up."""
        if hasattr(self, "dialogue"):
            self.dialogue.give_up()
            self.dialogue.give(rename=False, partial=False)
            assert all(file.outcome for file in self.dialogue.files)
            last = len(self.dialogue.files) - 1
            assert self.dialogue.files[last].outcome == FileReturned(last, suspect=False)


test_whatever_the_servers_answer = pytest.mark.filterwarnings("default")(Dialogues.TestCase)
Dialogues.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, phases=set(Phase) - {Phase.explain}
)


def test_each_row_of_the_table_is_reached_by_a_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialogues reach no other pair of state and input."""
    reached = set()

    def recording(state: ListeningState, what: ListeningInput) -> tuple[ListeningState, tuple[ListeningAction, ...]]:
        reached.add((state, what))
        return transition(state, what)

    monkeypatch.setattr(listening_source, "transition", recording)
    dice = random.Random(4)
    for _ in range(400):
        dialogue = Dialogue()
        for _ in range(80):
            _any_step(dialogue, dice)
        if reached == set(TRANSITIONS):
            return
    assert reached == set(TRANSITIONS)


def _any_step(dialogue: Dialogue, dice: random.Random) -> None:
    side = dice.choice([Side.SOURCE, Side.DESTINATION])
    verb = dialogue.next_verb(side)
    what = dice.random()
    if what < 0.1:
        dialogue.give(rename=dice.random() < 0.4, partial=dice.random() < 0.2)
    elif what < 0.11:
        dialogue.give_up()
    elif verb in (b"STOR", b"RETR") and what < 0.5:
        dialogue.answer(side, dice.choice(PRELIMINARY))
    elif verb:
        dialogue.answer(side, dice.choice(fitting(verb, success=dice.random() < 0.8)))


@pytest.mark.parametrize(
    ("side", "verb"),
    [(Side.SOURCE, b"TYPE"), (Side.SOURCE, b"MODE"), (Side.SOURCE, b"PASV"),
     (Side.DESTINATION, b"TYPE"), (Side.DESTINATION, b"MODE"), (Side.DESTINATION, b"PORT")],
)  # fmt: skip
def test_a_server_that_refuses_the_setup_loses_the_pair(side: Side, verb: bytes) -> None:
    dialogue = Dialogue()
    dialogue.give(rename=False, partial=False)
    for answering in (Side.SOURCE, Side.DESTINATION):
        while dialogue.pair.state is not PairState.LOST and (asked := dialogue.next_verb(answering)):
            if asked in (b"STOR", b"RETR"):
                break
            refused = answering is side and asked == verb
            dialogue.answer(answering, b"500 no\r\n" if refused else fitting(asked, success=True)[0])
    assert dialogue.pair.state is PairState.LOST
    assert dialogue.files[0].outcome is not None
    dialogue.give(rename=False, partial=False)
    assert dialogue.files[1].outcome == FileReturned(1, suspect=False)
