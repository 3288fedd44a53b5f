"""The transition table of the pair coordinator: all pairs of states and inputs, and servers that answer anything.

The servers here keep to one rule only, which no server can break: the final reply to a command ends it, and replies
are in the order of the commands. `test_pair` has servers that move contents.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from endpoints.gridftp.faults import Side
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party import pair as pair_module
from endpoints.gridftp.third_party.data_path import DataPath
from endpoints.gridftp.third_party.pair import ThirdPartyPair
from endpoints.gridftp.third_party.pair_states import (
    ADDRESSED,
    FLOWING,
    TRANSITIONS,
    PairAction,
    PairInput,
    PairState,
    transition,
)
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileReturned, FileSettled, Flush, Transfer
from endpoints.gridftp.third_party.transitions import ImpossibleInputError
from tests.gridftp.pair_dialogue import PairDialogue

ALL_PAIRS = list(itertools.product(PairState, PairInput))
#: They queue commands for files, addresses or settings.
SENDING = {PairAction.ADVANCE, PairAction.SET_STREAMS, PairAction.LISTEN, PairAction.CONNECT, PairAction.DRAIN}
LISTENING_VERBS = (b"PASV", b"SPAS")
#: They touch no data channel: a file that is moved already gets its name, or is removed.
NO_DATA = (b"RNFR", b"RNTO", b"DELE")


# ---- the table itself


@pytest.mark.parametrize(("state", "what"), ALL_PAIRS, ids=lambda one: one.name)
def test_each_pair_of_state_and_input_has_a_row_or_raises_the_typed_error(state: PairState, what: PairInput) -> None:
    if (state, what) in TRANSITIONS:
        assert transition(state, what) == TRANSITIONS[state, what]
    else:
        with pytest.raises(ImpossibleInputError) as caught:
            transition(state, what)
        assert (caught.value.state, caught.value.what) == (state, what)


@pytest.mark.parametrize("state", PairState, ids=lambda one: one.name)
def test_each_state_can_lose_a_connection_and_be_given_a_file(state: PairState) -> None:
    if state is not PairState.LOST:
        assert transition(state, PairInput.LOSS)[0] is PairState.LOST
    after, actions = transition(state, PairInput.FILE_GIVEN)
    assert after is state
    assert (PairAction.ADVANCE in actions) == (state in FLOWING), "a file goes out at once, or it waits"


def test_a_pair_that_drains_or_is_lost_sends_nothing() -> None:
    for (state, _), (after, actions) in TRANSITIONS.items():
        if state not in FLOWING:
            assert not SENDING & set(actions)
            assert after not in ADDRESSED
        assert (PairAction.DRAIN in actions) == (state in ADDRESSED and after not in FLOWING | {PairState.LOST})
        assert (PairAction.GIVE_BACK in actions) == (state not in FLOWING and after in FLOWING)


def test_the_modules_page_names_exactly_the_moves_of_the_table() -> None:
    written = set()
    for line in (pair_module.__doc__ or "").splitlines():
        if found := re.fullmatch(r" {4}([A-Z_]+) +((?:[A-Z_]+: [A-Z_]+(?:, )?)+)", line):
            written |= {(found[1], *move.split(": ")) for move in found[2].split(", ")}
    moves = {
        (state.name, what.name, after.name)
        for (state, what), (after, _) in TRANSITIONS.items()
        if after is not state and what is not PairInput.LOSS
    }
    assert written == moves


# ---- servers that answer anything


class Dialogue(PairDialogue[ThirdPartyPair]):
    """A pair, the commands that its servers have not answered, and what a file may be settled by."""

    def __init__(self, *, stream_mode: bool, striped: bool, parallelism: int | None) -> None:
        super().__init__()
        self.pair = ThirdPartyPair(
            self.channels[Side.SOURCE],
            self.channels[Side.DESTINATION],
            parallelism=parallelism,
            stream_mode=stream_mode,
            path=DataPath("127.0.0.1", striped=striped),
            accept_address=lambda _: False,
        )
        self.given = 0
        self.outcomes: dict[int, object] = {}
        #: Files whose STOR was sent since the last drain, in this order.
        self.lane: list[int] = []
        self.retrieved: list[int] = []
        self.failed: set[tuple[Side, int]] = set()
        self.succeeded: set[tuple[Side, int]] = set()
        self.renamed: set[int] = set()
        self.drain_answers: set[Side] | None = None
        self.listens = 0
        self.observe()

    def give(self, *, rename: bool, partial: bool, name: bytes = b"") -> None:
        self.given += 1
        path = b"/d/%d%b" % (self.given, name)
        self.pair.send(
            Transfer(
                self.given,
                b"/s/%d" % self.given,
                path,
                20 * 2**20,
                rename_to=b"/final/%d" % self.given if rename else None,
                ranges=RangeSet([(0, 5 * 2**20)]) if partial else None,
            )
        )
        self.observe()

    def use_streams(self, parallelism: int) -> None:
        self.pair.use_streams(parallelism)
        self.observe()

    # ---- the model

    def note(self, side: Side, reply: bytes) -> None:
        """Record the effect of a reply on its file, before the pair sees it."""
        code = int(reply[:3])
        verb, _, argument = self.commands[side][0].partition(b" ")
        is_drain = self.drain_answers is not None and verb in LISTENING_VERBS and code >= 200
        if code == 111 and verb == b"STOR" and b"Marker -" in reply:
            self.failed.add((side, _file(argument)))
        if code < 200:
            return
        self.commands[side].popleft()
        if verb == b"REST" and code >= 400:
            following = next(line for line in self.commands[side] if line.startswith((b"STOR", b"RETR")))
            self.failed.add((side, _file(following.partition(b" ")[2])))
        elif verb in (b"STOR", b"RETR"):
            (self.failed if code >= 400 else self.succeeded).add((side, _file(argument)))
        elif verb == b"RNTO" and code < 400:
            self.renamed.add(_file(argument))
        if is_drain and self.drain_answers is not None:
            if side is Side.SOURCE or not any(line.startswith(LISTENING_VERBS) for line in self.commands[side]):
                self.drain_answers.add(side)
            if len(self.drain_answers) == 2:
                self.drain_answers = None
                self.lane, self.retrieved = [], []

    def observe(self) -> None:
        """Check what was sent and what came back."""
        draining = self.drain_answers is not None
        for side in (Side.SOURCE, Side.DESTINATION):
            for line in self.channels[side].data_to_send().split(b"\r\n")[:-1]:
                self._sent(side, line, draining=draining)
        for event in self.pair.take():
            self._came_back(event)

    def _sent(self, side: Side, line: bytes, *, draining: bool) -> None:
        assert self.pair.state is not PairState.LOST, f"{line!r} was sent by a pair that is lost"
        verb, _, argument = line.partition(b" ")
        if draining:
            assert verb in NO_DATA, f"{line!r} was sent while the pair drained"
        self.commands[side].append(line)
        if verb == b"PASV" and side is Side.SOURCE:
            self.drain_answers = set()
        elif verb == b"STOR":
            self.lane.append(_file(argument))
        elif verb == b"RETR":
            self.retrieved.append(_file(argument))

    def _came_back(self, event: object) -> None:
        if isinstance(event, FileProgress | Flush):
            return
        assert isinstance(event, FileSettled | FileRefused | FileReturned)
        tag = event.tag
        assert isinstance(tag, int)
        assert tag not in self.outcomes, "a file came back twice"
        self.outcomes[tag] = event

    def settled_only_what_is_certain(self) -> None:
        settled = [tag for tag, event in self.outcomes.items() if isinstance(event, FileSettled)]
        for tag in settled:
            for side in self.channels:
                assert (side, tag) in self.succeeded, f"{tag} was settled without the word of the {side}"
                assert (side, tag) not in self.failed
        for number, tag in enumerate(self.lane):
            if tag in settled:
                for earlier in self.lane[:number]:
                    assert not any((side, earlier) in self.failed for side in self.channels), (tag, earlier)
                    assert all((side, earlier) in self.succeeded for side in self.channels), (tag, earlier)

    def asked_in_the_same_order_on_both_sides(self) -> None:
        assert self.retrieved == self.lane[: len(self.retrieved)], "the destination is asked first"


def _file(path: bytes) -> int:
    return int(path.rpartition(b"/")[2])


FINAL = {True: (b"226 ok\r\n", b"250 ok\r\n"), False: (b"550 No such file\r\n", b"500 no\r\n", b"426 broken\r\n")}
PRELIMINARY = (
    b"150 go\r\n",
    b"125 go\r\n",
    b"111 Range Marker 0-5242880\r\n",
    b"111 Range Marker 5242880-9000000\r\n",
    b"111 Range Marker -\r\n",
    b"127 Entering Passive Mode (9,9,9,9,4,1)\r\n",
)
ADDRESSES = {
    b"PASV": (b"227 Entering Passive Mode (127,0,0,1,4,1)\r\n",),
    b"SPAS": (
        b"229-Striped\r\n 127,0,0,1,4,1\r\n229 End\r\n",
        b"229-Striped\r\n 127,0,0,1,4,1\r\n 127,0,0,1,4,2\r\n229 End\r\n",
    ),
}


def fitting(verb: bytes, *, success: bool) -> Sequence[bytes]:
    """Final replies to this command. Refusals of the setup commands have a test of their own."""
    if verb in ADDRESSES:
        return ADDRESSES[verb]
    refusable = (b"STOR", b"RETR", b"REST", b"RNFR", b"RNTO", b"DELE", b"TREV")
    return FINAL[success or verb not in refusable]


class Dialogues(RuleBasedStateMachine):
    """Hypothesis chooses what the caller asks and what each server answers."""

    @initialize(
        stream_mode=st.booleans(),
        striped=st.booleans(),
        parallelism=st.sampled_from([None, 2]),
    )
    def begin(self, stream_mode: bool, striped: bool, parallelism: int | None) -> None:
        self.dialogue = Dialogue(stream_mode=stream_mode, striped=striped and not stream_mode, parallelism=parallelism)

    @rule(rename=st.booleans(), partial=st.booleans(), name=st.sampled_from([b""] * 9 + [b"\r\n"]))
    def give(self, rename: bool, partial: bool, name: bytes) -> None:
        self.dialogue.give(rename=rename, partial=partial, name=name)

    @precondition(lambda self: not self.dialogue.pair.under_way)
    @rule(parallelism=st.integers(1, 4))
    def use_streams(self, parallelism: int) -> None:
        self.dialogue.use_streams(parallelism)

    @precondition(lambda self: any(self.dialogue.commands.values()))
    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION]), success=st.booleans(), data=st.data())
    def answer(self, side: Side, success: bool, data: st.DataObject) -> None:
        if verb := self.dialogue.next_verb(side):
            self.dialogue.answer(side, data.draw(st.sampled_from(fitting(verb, success=success))))

    @precondition(lambda self: any(self.dialogue.commands.values()))
    @rule(sides=st.lists(st.sampled_from([Side.SOURCE, Side.DESTINATION]), min_size=4, max_size=12))
    def answer_many_with_success(self, sides: list[Side]) -> None:
        for side in sides:
            if verb := self.dialogue.next_verb(side):
                if verb == b"RETR":
                    self.dialogue.answer(side, b"150 go\r\n")
                self.dialogue.answer(side, fitting(verb, success=True)[0])

    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION]), reply=st.sampled_from(PRELIMINARY))
    def report(self, side: Side, reply: bytes) -> None:
        if self.dialogue.next_verb(side) in (b"STOR", b"RETR"):
            self.dialogue.answer(side, reply)

    @precondition(lambda self: self.dialogue.given > 4)
    @rule(side=st.sampled_from([Side.SOURCE, Side.DESTINATION, None]))
    def lose(self, side: Side | None) -> None:
        if side:
            self.dialogue.lose(side)
        else:
            self.dialogue.give_up()

    @invariant()
    def certain(self) -> None:
        if hasattr(self, "dialogue"):
            self.dialogue.settled_only_what_is_certain()
            self.dialogue.asked_in_the_same_order_on_both_sides()

    def teardown(self) -> None:
        """Each file comes back once: at the latest when the driver gives up."""
        if hasattr(self, "dialogue"):
            self.dialogue.give_up()
            assert sorted(self.dialogue.outcomes) == list(range(1, self.dialogue.given + 1))
            self.dialogue.give(rename=False, partial=False)
            assert self.dialogue.outcomes[self.dialogue.given] == FileReturned(self.dialogue.given, suspect=False)


test_whatever_the_servers_answer = pytest.mark.filterwarnings("default")(Dialogues.TestCase)
Dialogues.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, phases=set(Phase) - {Phase.explain}
)


def test_each_row_of_the_table_is_reached_by_a_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialogues reach no other pair of state and input."""
    reached = set()

    def recording(state: PairState, what: PairInput) -> tuple[PairState, tuple[PairAction, ...]]:
        reached.add((state, what))
        return transition(state, what)

    monkeypatch.setattr(pair_module, "transition", recording)
    dice = random.Random(4)
    for number in range(600):
        dialogue = Dialogue(stream_mode=number % 3 == 0, striped=number % 3 == 1, parallelism=dice.choice([None, 2]))
        for _ in range(60):
            _any_step(dialogue, dice, files=dice.choice([0.03, 0.2]) if number % 2 else 0.02)
        if reached == set(TRANSITIONS):
            return
    assert reached == set(TRANSITIONS)


def _any_step(dialogue: Dialogue, dice: random.Random, files: float) -> None:
    side = dice.choice([Side.SOURCE, Side.DESTINATION])
    verb = dialogue.next_verb(side)
    what = dice.random()
    if what < files:
        dialogue.give(rename=dice.random() < 0.2, partial=dice.random() < 0.2)
    elif what < 0.3 and not dialogue.pair.under_way:
        dialogue.use_streams(dice.randint(1, 4))
    elif 0.3 < what < 0.312:
        dialogue.give_up()
    elif verb in (b"STOR", b"RETR") and what < 0.7:
        dialogue.answer(side, dice.choice(PRELIMINARY))
    elif verb:
        dialogue.answer(side, dice.choice(fitting(verb, success=dice.random() < 0.8)))


@pytest.mark.parametrize(
    ("side", "verb"),
    [(Side.SOURCE, b"TYPE"), (Side.SOURCE, b"MODE"), (Side.SOURCE, b"OPTS"), (Side.SOURCE, b"PORT"),
     (Side.DESTINATION, b"TYPE"), (Side.DESTINATION, b"MODE"), (Side.DESTINATION, b"PASV")],
)  # fmt: skip
def test_a_server_that_refuses_the_setup_loses_the_pair(side: Side, verb: bytes) -> None:
    dialogue = Dialogue(stream_mode=False, striped=False, parallelism=2)
    dialogue.give(rename=False, partial=False)
    for answering in (Side.DESTINATION, Side.SOURCE):
        while dialogue.pair.state is not PairState.LOST and (asked := dialogue.next_verb(answering)):
            if asked in (b"STOR", b"RETR"):
                break
            refused = answering is side and asked == verb
            dialogue.answer(answering, b"500 no\r\n" if refused else fitting(asked, success=True)[0])
    assert dialogue.pair.state is PairState.LOST
    assert list(dialogue.outcomes) == [1]
    dialogue.give(rename=False, partial=False)
    assert dialogue.outcomes[2] == FileReturned(2, suspect=False)


def test_a_name_that_no_line_may_carry_asks_for_no_address() -> None:
    """The answers to two PORT would ask the destination for the next file twice."""
    dialogue = Dialogue(stream_mode=True, striped=False, parallelism=None)
    dialogue.give(rename=False, partial=False, name=b"\r\n")
    assert isinstance(dialogue.outcomes[1], FileRefused)
    assert not any(line.startswith(LISTENING_VERBS) for line in dialogue.commands[Side.DESTINATION])


def test_in_stream_mode_nothing_is_removed_while_a_file_is_on_its_way() -> None:
    """Pure-FTPd answers DELE in the middle of a file with 500, before the end of that file: replies are mistaken."""
    dialogue = Dialogue(stream_mode=True, striped=False, parallelism=None)
    for _ in range(2):
        dialogue.give(rename=True, partial=False)
    removed = False
    while len(dialogue.outcomes) < 2:
        for side in (Side.DESTINATION, Side.SOURCE):
            if verb := dialogue.next_verb(side):
                if verb in (b"STOR", b"RETR"):
                    dialogue.answer(side, b"150 here\r\n")
                refused = verb == b"RNTO" and b"/final/1" in dialogue.commands[side][0]
                dialogue.answer(side, b"553 no\r\n" if refused else fitting(verb, success=True)[0])
            deleting, storing = (
                any(line.startswith(one) for line in dialogue.commands[Side.DESTINATION]) for one in (b"DELE", b"STOR")
            )
            assert not (deleting and storing)
            removed = removed or deleting
    assert removed
    assert isinstance(dialogue.outcomes[1], FileRefused)
    assert isinstance(dialogue.outcomes[2], FileSettled)
