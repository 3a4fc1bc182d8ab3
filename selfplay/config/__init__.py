"""The command line's settings: composed by Hydra, checked against the components' dataclasses, refused in one line."""
