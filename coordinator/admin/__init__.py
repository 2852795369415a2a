"""HTTP of a node: probes and metrics, on a thread of its own."""
