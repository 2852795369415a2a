"""The demo: real flights through a real Kafka and two real Spark applications, one of which dies.

`story` runs it, `flights` and `producer` feed it, `applications` starts Spark, `watch` asks the coordinator. What
is shown and what is concluded is decided by pure files (`dashboard`, `timeline`, `checker`, `outcome`), which is
why they can be tested without any of it running. Knows Spark only as a command, never as a library.
"""
