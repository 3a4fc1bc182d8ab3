"""Where built backbones are kept: one folder per content hash under the user's cache folder.

A folder appears under its final name only when it is complete, so a reader needs no lock, and a build that was killed
leaves a temporary folder that the next build of the same content removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CACHE_VARIABLE = "SELFPLAY_CACHE_DIR"


def cache_root() -> Path:
    """The folder of all cached backbones: `$SELFPLAY_CACHE_DIR/backbones`, else below the user's cache folder."""
    import platformdirs

    base = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("selfplay")
    return Path(base).expanduser() / "backbones"


def content_hash(ingredients: Mapping[str, Any]) -> str:
    """16 hex digits of everything that decides what a build writes; `ingredients` must be JSON values."""
    text = json.dumps(ingredients, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cached(name: str, ingredients: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
    """The folder `name-<content hash>`, made by `build(empty folder)` if it is not there.

    Safe with concurrent callers in several processes: one builds, the others wait for it and find it done.
    Raises whatever `build` raises, and leaves nothing behind then.
    """
    from filelock import FileLock

    root = cache_root()
    final = root / f"{name}-{content_hash(ingredients)}"
    if final.is_dir():
        return final
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(str(final) + ".lock"):
        if final.is_dir():
            return final
        for stale in root.glob(f"{final.name}.tmp-*"):
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{final.name}.tmp-", dir=root))
        try:
            build(work)
            work.chmod(0o755)
            os.replace(work, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return final


def corpus_file(corpus: Mapping[str, Any]) -> str:
    """A micro-domain's tokenizer corpus as a file, for `BackboneConfig.corpus`; written once."""
    from selfplay.runs.files import write_atomic

    text = json.dumps(corpus, ensure_ascii=False)
    path = cache_root() / f"corpus-{content_hash({'text': text})}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    return str(path)
