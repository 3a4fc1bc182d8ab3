"""The models that are trained: one embedded, one carried by a Python package, and any in Hugging Face's format.

`prepare.prepare(config)` gives the folder to load. To add a kind, write a `build(config, folder)` and enter it in
`prepare.BUILDERS`. Nothing heavy is imported here: the configuration reads `config` alone.
"""
