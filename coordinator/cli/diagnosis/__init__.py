"""The parts of `kcoord doctor`, `kcoord cluster doctor` and `kcoord cluster bundle`: facts, checks, the bundle."""
