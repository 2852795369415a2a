"""The console: pages and a REST API about groups, topics, nodes and shards, in a process of its own.

It speaks to coordinators by the protocol, as every other tool does, and so can hold no node up. One thread asks
(`survey`); what was heard is kept as a picture (`known`), and pages and API (`web`) are made of the picture. Acts of
operators (`acts`) are asked one by one. Needs the packages of the extra `console`.
"""
