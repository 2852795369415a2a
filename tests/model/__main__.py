"""The small model in all its scopes: every state, random walks, and every planted mistake."""

import sys
import time

from tests.model.explore import ViolationError, every_state, random_walks
from tests.model.mistakes import MISTAKES, planted
from tests.model.scopes import LARGE_SCOPES, LARGE_WALKS, MOST_STATES, QUICK_SCOPES


def main() -> int:
    """Look at everything; the last line says how much there was and whether all of it was well."""
    began, states, walks, violations = time.monotonic(), 0, 0, 0

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)

    for name, scope in {**{name: quick.scope for name, quick in QUICK_SCOPES.items()}, **LARGE_SCOPES}.items():
        say(f"{name}: {scope}")
        try:
            seen = every_state(
                scope,
                most=MOST_STATES,
                progress=lambda known, waiting: say(f"  states={known:,} of which to be looked at={waiting:,}"),
            )
            states += seen.states
            say(f"  states={seen.states:,} steps={seen.steps:,}, {'all' if seen.is_whole else 'the nearest of more'}")
        except ViolationError as error:
            violations += 1
            say(str(error))
    for name, wanted, seed in [(name, it, seed) for name, it in LARGE_WALKS.items() for seed in range(it.walks // 100)]:
        try:
            steps = random_walks(wanted.scope, seed, 100, wanted.steps)
            walks += 100
            say(f"{name}: walks={walks:,}, steps={steps:,} in these 100")
        except ViolationError as error:
            violations += 1
            say(str(error))
    missed = []
    for name in MISTAKES:
        if is_found(name):
            say(f"the planted mistake {name} is found")
        else:
            missed.append(name)
            say(f"the planted mistake {name} is NOT found")
    is_well = not violations and not missed
    print(f"model: {'OK' if is_well else 'FAILED'} states={states} walks={walks} violations={violations}")
    return 0 if is_well else 1


def is_found(name: str) -> bool:
    """Return whether a planted mistake breaks one of the invariants that it ought to."""
    with planted(name):
        try:
            every_state(MISTAKES[name].scope, forgets=MISTAKES[name].forgets)
        except ViolationError as error:
            return str(error).startswith(MISTAKES[name].breaks)
    return False


if __name__ == "__main__":
    sys.exit(main())
