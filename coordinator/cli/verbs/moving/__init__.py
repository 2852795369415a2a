"""The verbs by which positions are moved: import, export, and backup and restore of the cluster."""
