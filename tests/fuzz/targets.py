"""Every target, by its name."""

from typing import Final

from tests.fuzz import batches, stored, texts, tls, wire
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target for room in (wire, stored, texts, batches, tls) for target in room.TARGETS
}
