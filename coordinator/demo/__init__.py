"""The demo: real flights through a real Kafka and two real Spark applications, one of which dies.

`story` runs it, `data` feeds it and checks what arrived, `applications` starts Spark, `watch` asks the coordinator,
`screen` shows it. What is shown and what is concluded is decided by pure files (`dashboard`, `timeline`, `checker`,
`outcome`), which is why they can be tested without any of it running. Knows Spark as a command, not as a library.
"""
