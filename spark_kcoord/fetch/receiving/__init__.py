"""From a broker's socket to whole responses in memory, and how the threads of a process share the interpreter for it."""
