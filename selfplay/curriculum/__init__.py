"""The curriculum DAG of ANCORA: which specification to vary next, and which variations to keep.

`Curriculum` is the door; `Seed`, `Candidate` and `Admission` are what passes through it. No model is needed.
"""
