"""Cuts what a coordinator says into frames, for a proxy that ends connections behind one of them or in its place.

A node behind such a proxy has to advertise the proxy's address, or members go to the node itself.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from coordinator.protocol.codec import decode_answer
from coordinator.protocol.framing import FrameReader, decode_envelope
from coordinator.protocol.messages import Push, Response
from tests.helpers.loopback_proxy import Cutter

FRAME_LIMIT_BYTES: Final = 64 * 1024 * 1024


def answer_cutter(
    cuts_after: Callable[[Response | Push], bool] = lambda _: False,
    *,
    cuts_before: Callable[[Response | Push], bool] = lambda _: False,
) -> Callable[[], Cutter]:
    """Return what makes cutters; `cuts_after` says of each answer and push whether all connections end behind it.

    `cuts_before` says whether they end in its place, so that it is lost. Both are called on the proxy's threads.
    """

    def cutter() -> Cutter:
        frames = FrameReader(FRAME_LIMIT_BYTES)
        has_greeted = False

        def cut(data: bytes) -> Iterator[tuple[bytes, bool]]:
            nonlocal has_greeted
            frames.append(data)
            while (body := frames.next_frame()) is not None:
                answer = decode_answer(decode_envelope(memoryview(body))[1]) if has_greeted else None
                if answer is not None and cuts_before(answer):
                    yield b"", True
                    return
                yield struct.pack(">I", len(body)) + body, False
                if answer is not None and cuts_after(answer):  # which is asked when the answer has been sent
                    yield b"", True
                    return
                has_greeted = True

        return cut

    return cutter
