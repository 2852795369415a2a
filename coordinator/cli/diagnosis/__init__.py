"""The parts of `kcoord cluster doctor` and `kcoord cluster bundle`: facts of nodes, checks of them, the bundle."""
