"""The other nodes of a cluster, as the core of one sees them: whom it is in contact with, and all that is said."""
