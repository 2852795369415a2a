"""Decides what of groups survives: records, the state that they make, and the journal that writes them."""
