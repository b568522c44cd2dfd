"""A TOML table as the schema sees it: dates and times are strings there."""

from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema

JOBSPEC = Path(__file__).parents[2] / "jobspec"
SCHEMA = json.loads((JOBSPEC / "job.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def is_valid(data: bytes) -> bool:
    """Does the schema accept this TOML?"""
    return VALIDATOR.is_valid(as_json(tomllib.loads(data.decode("utf-8-sig"))))
