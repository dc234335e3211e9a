"""The reader of pages reads what the pages say; a test that finds no block would pass without testing anything."""

from __future__ import annotations

import pytest
from page_blocks import programs

PAGE = """# name (TV999)

```python
alone = 1
```

## Bad

`helpers.py`:
```python
def f(): ...
```

`pkg/train.py`:

```python
import helpers
total += loss  # error: [name]
both()  # warning: [name]  # note: [other-name]
missed()  # todo-error: [name]
```

```toml
max-workers = 4
```

## Good

```python
a = 1
```

```python
b = 2  # todo-ok: [name]
```

Only with a setting:

```toml
[tool.torchvet]
max-workers = 12
```

```python
c = 3
```

```console
$ not a program
```

## Settings

```toml
max-workers = 4
```
"""


def test_programs_and_expectations():
    alone, bad, good, second, configured = programs(PAGE)
    assert alone.heading == "name (TV999)" and alone.files == {"train.py": "alone = 1\n"}
    assert list(bad.files) == ["helpers.py", "pkg/train.py", "torchvet.toml"]
    assert bad.expected == {
        ("pkg/train.py", 2, "error", "name"),
        ("pkg/train.py", 3, "warning", "name"),
        ("pkg/train.py", 3, "note", "other-name"),
    }
    assert bad.todo == {("pkg/train.py", 4, "todo-error", "name")}
    assert PAGE.split("\n")[bad.page_line("pkg/train.py", 2) - 1].startswith("total +=")
    assert good.files == {"train.py": "a = 1\n"} and not good.expected
    assert configured.files == {"pyproject.toml": "[tool.torchvet]\nmax-workers = 12\n", "train.py": "c = 3\n"}
    assert second.heading == "Good" and second.todo == {("train.py", 1, "todo-ok", "name")}


def test_open_fence_is_an_error():
    with pytest.raises(ValueError, match="never closed"):
        programs("## Bad\n\n```python\nx = 1\n")
