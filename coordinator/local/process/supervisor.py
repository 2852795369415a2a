"""Runs one command and ends it when its owner is gone, however the owner went.

A script of its own, run as `python -I supervisor.py CONTROL_FD OWNER_PID GRACE_S COMMAND...`; `child.py`
starts it. The owner holds the other end of the control pipe: its end of file means stop (the kernel closes it
even after a SIGKILL), the byte `k` means kill at once, `p` have it stand still, `r` let it go on. A forked copy of
the owner could keep the pipe open, so the parent's pid is watched too. Stop means SIGTERM, then SIGKILL when the
grace is over. If the supervisor itself is killed, Linux kills the command with it; being single-threaded, it may
ask for that (the request is tied to the thread that starts the child). The exit code is the command's, or 128
plus the signal that ended it.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

KILL = b"k"
PAUSE = b"p"
RESUME = b"r"
COMMAND_NOT_RUNNABLE = 127
_OWNER_CHECK_S = 1.0
_PR_SET_PDEATHSIG = 1


def _tie_to_supervisor(supervisor_pid: int) -> None:
    """Ask the kernel, in the child before exec, for SIGKILL when the supervisor dies."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor_pid:  # it died before the request
        os._exit(128 + signal.SIGKILL)


def supervise(control_fd: int, owner_pid: int, grace_s: float, command: list[str]) -> int:
    """Run `command` until it ends, its owner asks for its end, or its owner is gone; return its exit code."""
    woken_fd, wake_fd = os.pipe()
    os.set_blocking(woken_fd, False)
    os.set_blocking(wake_fd, False)
    asked: list[int] = []
    for asking in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(asking, lambda number, _frame: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_fd, warn_on_full_buffer=False)

    supervisor_pid = os.getpid()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=(lambda: _tie_to_supervisor(supervisor_pid)) if sys.platform == "linux" else None,
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error}\n")
        return COMMAND_NOT_RUNNABLE

    watched = [control_fd, woken_fd]
    kill_at: float | None = None
    while (code := child.poll()) is None:
        now = time.monotonic()
        if kill_at is not None and now >= kill_at:
            child.kill()
            child.wait()
            continue
        wait_s = _OWNER_CHECK_S if kill_at is None else min(_OWNER_CHECK_S, kill_at - now)
        ready, _, _ = select.select(watched, [], [], wait_s)
        if woken_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken_fd, 4096)
        stop = bool(asked) or os.getppid() != owner_pid
        if control_fd in ready:
            said = os.read(control_fd, 1)
            if said == KILL:
                child.kill()
            elif said in (PAUSE, RESUME):
                child.send_signal(signal.SIGSTOP if said == PAUSE else signal.SIGCONT)
            else:
                watched.remove(control_fd)
                stop = True
        if stop and kill_at is None:
            child.terminate()
            child.send_signal(signal.SIGCONT)  # one that stands still would not hear of it
            kill_at = time.monotonic() + grace_s
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
