"""One target under atheris, in a process of its own: `python -m tests.fuzz.child TARGET [arguments of libFuzzer]`."""

import sys

import atheris

INSTRUMENTED = [
    "coordinator.protocol",
    "coordinator.core.groups.hard.records",
    "coordinator.core.log",
    "coordinator.core.security",
    "coordinator.console.known",
    "coordinator.runtime.security.tls_end",
    "spark_kcoord.fetch.decoding",
    "spark_kcoord.microbatch.stream_offset",
]
"""Packages in which the fuzzer sees which branches an input takes."""

if __name__ == "__main__":
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS

    target = TARGETS[sys.argv[1]]
    for seed in target.seeds():  # what is imported when it is first needed is not the time of an input
        target.take(seed)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.take)
    atheris.Fuzz()
