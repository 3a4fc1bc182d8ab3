"""Values across the border of the sandbox, as JSON: nothing that comes back can run, compare or lie about its type.

The source of this module is a part of the programs that the judge runs, so it imports nothing of ours.
"""

import collections
import json

TABLES = (dict, collections.Counter, collections.OrderedDict, collections.defaultdict)  # all equal to a plain one
PLAIN = (int, float, str, bool, type(None))


def encode(value):  # type: ignore[no-untyped-def]
    """JSON values for plain data and numpy arrays. Raises TypeError for anything else, subclasses included."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is bytes:
        return {"bytes": list(value)}
    if kind is list:
        return [encode(one) for one in value]
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [encode(one) for one in value]}
    if kind in TABLES:
        return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        if value.dtype.kind not in "biufcSU":
            raise TypeError(f"an array of {value.dtype}")
        name = "array" if kind.__name__ == "ndarray" else "scalar"
        return {name: [value.dtype.str, list(value.shape), [encode(one) for one in value.ravel().tolist()]]}
    raise TypeError(f"a value of type {kind.__name__}")


def decode(data, arrays=True):  # type: ignore[no-untyped-def]
    """The inverse of `encode`. Raises ValueError or TypeError for anything else.

    Arrays need numpy, and whoever wrote one chose its size: outside of the sandbox they are refused.
    """
    if type(data) is list:
        return [decode(one, arrays) for one in data]
    if type(data) is not dict:
        return data
    ((kind, content),) = data.items()
    if kind in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](decode(one, arrays) for one in content)
    if kind == "dict":
        return {decode(key, arrays): decode(one, arrays) for key, one in content}
    if kind == "complex":
        return complex(*content)
    if kind == "bytes":
        return bytes(content)
    if kind in ("array", "scalar") and arrays:
        import numpy as np

        array = np.array([decode(one) for one in content[2]], dtype=content[0]).reshape(content[1])
        return array if kind == "array" else array[()]
    raise ValueError(f"no kind of value: {kind}")


def dumps(value):  # type: ignore[no-untyped-def]
    return json.dumps(encode(value))


def loads(text, arrays=True):  # type: ignore[no-untyped-def]
    return decode(json.loads(text), arrays)
