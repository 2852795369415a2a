"""Decides which Java runs services, and where their jars and archives of classes come from."""
