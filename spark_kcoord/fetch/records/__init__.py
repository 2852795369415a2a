"""Records, as Python programs take them, of rows in Arrow: in the compiled module, and in plain Python."""
