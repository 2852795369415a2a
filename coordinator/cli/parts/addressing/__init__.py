"""Where coordinators are, when the command line does not say so itself."""
