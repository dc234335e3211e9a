"""`torchvet check --show-settings`: the settings in effect as a torchvet.toml, with where each comes from."""

from __future__ import annotations

from torchvet.check.config import SETTINGS, TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torchvet.check.config import Options


def settings_page(options: Options) -> str:
    """TOML that reproduces the run; comments say what is not a default, and why."""
    lines = [f"# {options.config_file or 'no configuration file'}"]
    tables = []
    for s in SETTINGS:
        if s.where != "both":
            continue
        value = getattr(options, s.attribute)
        origin = ""
        if value != s.default:
            origin = "  # " + options.where(s.name)
        if s.kind == TABLE:
            if value:
                tables += ["", f"[{s.name}]{origin}", *(f"{_toml(k)} = {_toml(v)}" for k, v in value.items())]
        else:
            unset = "# " if value == "" else ""
            lines.append(f"{unset}{s.name} = {_toml(value)}{origin}")
    return "\n".join([*lines, *tables]) + "\n"


def _toml(value: Any) -> str:
    import json

    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, true and false are written alike in TOML
