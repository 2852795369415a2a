"""Effects wait for their records, in order."""

from coordinator.core.effects import Effect, WakeAt
from coordinator.core.parking import Parking


def parked(number: int) -> Effect:
    return WakeAt(number)


def test_effect_leaves_when_the_high_watermark_reaches_its_offset() -> None:
    parking = Parking(1)
    parking.park(parked(1), [(0, 5)])
    parking.lift(0, 4)
    assert parking.release() == []
    parking.lift(0, 5)
    assert parking.release() == [parked(1)]


def test_effect_leaves_at_once_when_its_records_are_durable_already() -> None:
    parking = Parking(1)
    parking.lift(0, 5)
    parking.park(parked(1), [(0, 5)])
    assert parking.release() == [parked(1)]


def test_high_watermark_never_goes_back() -> None:
    parking = Parking(1)
    parking.lift(0, 5)
    parking.lift(0, 3)
    assert parking.high_watermark(0) == 5


def test_order_is_kept_within_a_shard_and_shards_do_not_wait_for_each_other() -> None:
    parking = Parking(2)
    for number, waits in enumerate([(0, 2), (1, 9), (0, 2), (0, 3)]):
        parking.park(parked(number), [waits])
    parking.lift(0, 3)
    assert parking.release() == [parked(0), parked(2), parked(3)]
    assert len(parking) == 1


def test_effect_may_wait_for_several_shards() -> None:
    parking = Parking(2)
    parking.park(parked(1), [(0, 1), (1, 1)])
    parking.lift(1, 1)
    assert parking.release() == []
    parking.lift(0, 1)
    assert parking.release() == [parked(1)]


def test_what_is_dropped_is_never_released() -> None:
    parking = Parking(1)
    parking.park(parked(1), [(0, 1)])
    parking.drop_all()
    parking.lift(0, 1)
    assert parking.release() == []
