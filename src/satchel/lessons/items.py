"""The numbered items of the lectures: one claim, formula or worked example each. Tests refer to them by number."""

import tomllib
from pathlib import Path

_TOPICS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["topics"]

# Item number (from 1) -> (topic, title).
ITEMS = dict(enumerate(((topic["name"], title) for topic in _TOPICS for title in topic["items"]), start=1))
