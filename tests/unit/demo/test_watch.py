"""What the demo asks about its group: each event is told once, also by another node."""

from coordinator.demo.watch import GroupWatch
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse, Request, Response
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.vocabulary import EventKind


class Node:
    """A node that tells the events of the group's timeline."""

    def __init__(self, *whys: str) -> None:
        self._events = tuple(
            GroupEvent(number, 0, EventKind.STABLE, "", why, 1) for number, why in enumerate(whys, start=1)
        )

    def ask(self, request: Request) -> Response:
        assert isinstance(request, ListGroupEvents)
        return ListGroupEventsResponse(
            events=tuple(each for each in self._events if each.sequence > request.after_sequence)
        )


def test_each_event_is_told_once_also_when_another_node_goes_on_with_the_timeline() -> None:
    first, second = Node("a", "b", "c"), Node("a", "b", "c", "d", "e")
    watch = GroupWatch(first.ask, "g")
    assert [event.why for event in watch.new_events()] == ["a", "b", "c"]
    assert watch.new_events() == []

    watch.ask = second.ask
    assert [event.why for event in watch.new_events()] == ["d", "e"]
    assert watch.new_events() == []
    assert [event.why for event in watch.events] == ["a", "b", "c", "d", "e"]
