"""Verifiers and sandboxes behind one interface; see `selfplay.sandbox.base`."""
