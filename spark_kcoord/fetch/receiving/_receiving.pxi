# The part of the compiled module that receives, and that lets threads go before others; included by `_native.pyx`.

cdef extern from "_receive.h" nogil:
    int KCOORD_RECEIVES
    int KCOORD_END_OF_STREAM
    int64_t kcoord_receive(int sock, uint8_t *to, int64_t size, int64_t many, int *failure)

cdef extern from "_turns.h" nogil:
    void kcoord_forget_turns()
    void kcoord_turn_begins()
    void kcoord_turn_ends()
    void kcoord_works_without()
    void kcoord_wants_lock()
    void kcoord_has_lock()
    bint kcoord_lock_is_wanted()
    void kcoord_give_way()

RECEIVES = bool(KCOORD_RECEIVES)


def _forget_turns():
    kcoord_forget_turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns)


def receive(int sock, uint8_t[::1] target, int64_t many):
    """Receive into `target` until it is full or nothing more comes; see `spark_kcoord.fetch.receiving.compiled`."""
    cdef int64_t size = target.shape[0]
    cdef uint8_t *to = &target[0] if size else NULL
    cdef int64_t count
    cdef int failure
    with nogil:
        kcoord_works_without()
        count = kcoord_receive(sock, to, size, many, &failure)
        kcoord_wants_lock()
    kcoord_has_lock()
    if failure == KCOORD_END_OF_STREAM:
        return 0
    if failure:
        raise OSError(failure, os.strerror(failure))
    if not count and size:
        raise BlockingIOError(EAGAIN, "no bytes have come")
    return count


def turn_begins():
    """Have threads that make records give way to this one; see `spark_kcoord.fetch.receiving.compiled`."""
    kcoord_turn_begins()


def turn_ends():
    """End what `turn_begins` began; without it nothing."""
    kcoord_turn_ends()


def lock_is_wanted():
    """Return whether a thread would be given way to."""
    return bool(kcoord_lock_is_wanted())


cdef inline int give_way() except -1:
    """Let a thread have the interpreter that wants it, if there is one."""
    if kcoord_lock_is_wanted():
        with nogil:
            kcoord_give_way()
    return 0
