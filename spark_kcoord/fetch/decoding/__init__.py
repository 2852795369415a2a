"""From raw record sets to Arrow: no connection, no clock; every file is a function of bytes."""
