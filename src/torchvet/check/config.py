"""The settings of `torchvet check`: one table feeds pyproject.toml, torchvet.toml, the command line and the docs.

A project keeps them in `[tool.torchvet]` of its pyproject.toml, or, without the table's name, in torchvet.toml or
.torchvet.toml. The nearest file above the checked path wins; files are not merged. The command line overrides the file.
"""

from __future__ import annotations

import os

from torchvet.findings import CONFIDENCES, LANGUAGES, SEVERITIES, Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

LIST, TABLE, BOOL, INT, STRING, PATH, CHOICE = "list", "table", "bool", "int", "string", "path", "choice"

FORMATS = ("full", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "rdjson", "markdown", "html")
"""Output formats, as `torchvet.report` has them (which stands on another floor; a test holds both together)."""

FILE_NAMES = (".torchvet.toml", "torchvet.toml", "pyproject.toml")
"""Where settings are looked for, in each folder from the checked path upward; the first that has them wins."""


class Setting:
    """One option. `where` is "both" or "command" (no key in a file); `group` heads the options in `--help`."""

    __slots__ = ("choices", "default", "group", "help", "kind", "metavar", "name", "short", "where")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        group: str,
        en: str,
        zh: str,
        *,
        metavar: str = "",
        choices: tuple[str, ...] = (),
        short: str = "",
        where: str = "both",
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.group = group
        self.help = Text(en, zh)
        self.metavar = metavar
        self.choices = choices
        self.short = short
        self.where = where

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


SETTINGS = (
    Setting("select", LIST, (), "rules", "rules to run: names, codes, prefixes (TV1), families, all",
            "要运行的规则：名称、代码、前缀 (TV1)、类别、all", metavar="RULE"),
    Setting("ignore", LIST, (), "rules", "rules to leave out", "不运行的规则", metavar="RULE"),
    Setting("extend-select", LIST, (), "rules", "rules to run in addition", "额外运行的规则", metavar="RULE"),
    Setting("per-file-ignores", TABLE, {}, "rules", "rules to leave out in files that match a pattern",
            "在匹配的文件中不运行的规则", metavar="PATTERN:RULE"),
    Setting("severity", CHOICE, "note", "rules", "mildest severity to show", "显示的最低严重级别",
            choices=SEVERITIES),
    Setting("confidence", CHOICE, "likely", "rules", "least confidence to show", "显示的最低可信度",
            choices=CONFIDENCES),
    Setting("strict", BOOL, False, "gate", "notes block too (exit code 1)", "note 级别也会阻断（退出码 1）"),
    Setting("baseline", PATH, "", "gate", "known findings that do not block", "已知问题的基线文件，不再阻断",
            metavar="FILE"),
    Setting("require-reason", BOOL, False, "gate", "a suppression must say why", "抑制注释必须写明理由"),
    Setting("unused-suppressions", BOOL, True, "gate", "report suppressions that suppress nothing",
            "报告没有作用的抑制注释"),
    Setting("exclude", LIST, (), "files", "files and folders to skip, in place of the built-in list",
            "跳过的文件和目录，替换内置列表", metavar="PATTERN"),
    Setting("extend-exclude", LIST, (), "files", "files and folders to skip in addition",
            "额外跳过的文件和目录", metavar="PATTERN"),
    Setting("respect-gitignore", BOOL, True, "files", "skip what .gitignore names", "跳过 .gitignore 中的文件"),
    Setting("force-exclude", BOOL, False, "files", "excludes hold for files named on the command line too",
            "命令行直接给出的文件也受排除规则约束"),
    Setting("output-format", CHOICE, "full", "output", "how findings are printed; may be repeated",
            "输出格式，可重复", choices=FORMATS),
    Setting("output", LIST, (), "output", "write the report to a file: PATH or FORMAT=PATH; may be repeated",
            "把报告写入文件：PATH 或 FORMAT=PATH，可重复", metavar="PATH", short="o", where="command"),
    Setting("lang", CHOICE, "", "output", "language of messages (default: TORCHVET_LANG, LC_ALL, LANG)",
            "消息语言（默认：TORCHVET_LANG、LC_ALL、LANG）", choices=LANGUAGES),
    Setting("torch-version", STRING, "", "knowledge", "version of PyTorch that the project runs on",
            "项目使用的 PyTorch 版本", metavar="X.Y"),
    Setting("max-workers", INT, 8, "knowledge", "DataLoader workers that one rank may start",
            "每个 rank 允许的 DataLoader worker 数", metavar="N"),
    Setting("rank-predicates", LIST, (), "knowledge", "your functions that are true on one rank only",
            "仅在某个 rank 上为真的自定义函数", metavar="NAME"),
    Setting("collectives", LIST, (), "knowledge", "your functions that every rank must call",
            "每个 rank 都必须调用的自定义函数", metavar="NAME"),
    Setting("wrappers", LIST, (), "knowledge", "your functions that wrap a model for distributed training",
            "为分布式训练包装模型的自定义函数", metavar="NAME"),
    Setting("jobs", INT, 0, "run", "processes to use (0: decide by the amount of work)",
            "使用的进程数（0：按工作量决定）", metavar="N", short="j"),
    Setting("no-cache", BOOL, False, "run", "neither read nor write the cache", "不读写缓存", short="n"),
    Setting("cache-dir", PATH, "", "run", "where the cache lies", "缓存目录", metavar="DIR"),
)  # fmt: skip
"""Every setting, in the order of `--help` and of the documentation."""

_BY_NAME = {s.name: s for s in SETTINGS}
_LEAST = {"max-workers": 1, "jobs": 0}


class Options:
    """The settings of one run, an attribute for each (`per-file-ignores` is `per_file_ignores`: pattern -> rules).

    `config_file` is the file that they come from ("" for none), `config_dir` its folder: patterns count from there, and
    `baseline` and `cache_dir` are already joined to it. `given` names what the command line set, `from_environment`
    what TORCHVET_* variables did.
    """

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    per_file_ignores: dict[str, tuple[str, ...]]
    severity: str
    confidence: str
    strict: bool
    baseline: str
    require_reason: bool
    unused_suppressions: bool
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    respect_gitignore: bool
    force_exclude: bool
    output_format: str
    output: tuple[str, ...]
    lang: str
    torch_version: str
    max_workers: int
    rank_predicates: tuple[str, ...]
    collectives: tuple[str, ...]
    wrappers: tuple[str, ...]
    jobs: int
    no_cache: bool
    cache_dir: str

    def __init__(self, **values: Any) -> None:
        self.config_file = ""
        self.config_dir = ""
        self.given: frozenset[str] = frozenset()
        self.from_environment: frozenset[str] = frozenset()
        for s in SETTINGS:
            setattr(self, s.attribute, s.default)
        for name, value in values.items():
            if not hasattr(self, name):
                raise TypeError(f"no setting is called {name}")
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def fingerprint(self) -> tuple[Any, ...]:
        """All that decides which findings there are before severity, baseline and the like: part of a cache's key."""
        shown_only = ("baseline", "cache_dir", "confidence", "jobs", "lang", "no_cache", "output", "output_format",
                      "per_file_ignores", "severity", "strict")  # fmt: skip
        return tuple(getattr(self, s.attribute) for s in SETTINGS if s.attribute not in shown_only)

    def where(self, name: str, item: str = "") -> str:
        """Where a setting was given, for messages: "--ignore", or "pyproject.toml:14"."""
        if name in self.given or not (self.config_file or self.from_environment):
            return "--" + name
        if name in self.from_environment:
            return _variable(name)
        with open(self.config_file, "rb") as f:
            text = f.read().decode("utf-8", "replace")
        return f"{os.path.relpath(self.config_file)}:{line_of(text, self.config_file, (name,), item)}"


def load(
    start: str = ".",
    command: Mapping[str, Any] | None = None,
    *,
    config: str = "",
    isolated: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Options:
    """The settings for a check of `start`: defaults, then the nearest file (or `config`; none when `isolated`), then
    TORCHVET_* variables, then `command` (setting name -> value, as parsed from the command line)."""
    options = Options()
    if config:
        if not os.path.isfile(config):
            raise UserError(Text("there is no configuration file {path}", "配置文件 {path} 不存在", path=config))
        found = _load(os.path.abspath(config), _read(config))
        if found is None:
            raise UserError(
                Text("{path} has no table [tool.torchvet]", "{path} 中没有 [tool.torchvet] 表", path=config)
            )
    else:
        found = None if isolated else find(start)
    if found:
        _apply_file(options, *found)
    env = os.environ if environment is None else environment
    for name in ("output-format", "cache-dir", "no-cache"):
        value = env.get(_variable(name))
        if value:
            options.from_environment |= {name}
            s = _BY_NAME[name]
            if s.kind == BOOL:
                setattr(options, s.attribute, value.lower() not in ("0", "false", "no"))
            elif s.kind == CHOICE and value not in s.choices:
                raise _bad_choice(_variable(name), value, s.choices)
            else:
                setattr(options, s.attribute, value)
    if command:
        _apply_command(options, command)
    return options


def _variable(name: str) -> str:
    return "TORCHVET_" + name.upper().replace("-", "_")


def find(start: str) -> tuple[str, str, dict[str, Any]] | None:
    """The nearest file with settings, at or above `start` (a file or folder): its path, its text, its table."""
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while True:
        for name in FILE_NAMES:
            path = os.path.join(folder, name)
            try:
                data = _read(path)
            except OSError:
                continue
            found = _load(path, data) if name != "pyproject.toml" or _may_have_table(data) else None
            if found:
                return found
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _read(path: str) -> bytes:
    import stat

    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a FIFO of that name must not block the run
    with open(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(path)
        return f.read()


def _may_have_table(data: bytes) -> bool:
    """Whether a pyproject.toml may have our table, without the cost of a TOML parser for the many that have not."""
    if b"torchvet" not in data:
        return False
    import re

    torchvet, tool = rb"""["']?torchvet\b""", rb"""["']?tool["']?\s*\.\s*"""
    start = rb"^(?:\xef\xbb\xbf)?[ \t]*"
    if re.search(start + rb"(?:\[\s*%b%b|%b%b)" % (tool, torchvet, tool, torchvet), data, re.MULTILINE):
        return True
    return bool(re.search(rb"^[ \t]*\[\s*[\"']?tool[\"']?\s*\]", data, re.MULTILINE))


def _load(path: str, data: bytes) -> tuple[str, str, dict[str, Any]] | None:
    """A file's path, text and our table in it; None for a pyproject.toml without the table."""
    text = data.decode("utf-8-sig", "replace")
    table: Any = _parse(text, path)
    if os.path.basename(path) == "pyproject.toml":
        tool = table.get("tool")
        if not isinstance(tool, dict) or "torchvet" not in tool:
            return None
        table = tool["torchvet"]
        if not isinstance(table, dict):
            raise _at(text, path, (), Text("tool.torchvet must be a table", "tool.torchvet 必须是一个表"))
    return path, text, table


def _apply_file(options: Options, path: str, text: str, table: dict[str, Any]) -> None:
    folder = os.path.dirname(path)
    options.config_file = path
    options.config_dir = folder
    known = [s.name for s in SETTINGS if s.where == "both"]
    for key, value in table.items():
        if key not in known:
            raise _at(
                text, path, (key,),
                Text("unknown setting {key}", "未知的设置项 {key}", key=key), did_you_mean(key, known),
            )  # fmt: skip
        s = _BY_NAME[key]
        value = _checked(s, value, text, path)
        if s.kind == PATH and value:
            value = os.path.join(folder, os.path.expanduser(value))
        setattr(options, s.attribute, value)


def _parse(text: str, path: str) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except tomllib.TOMLDecodeError as error:
        import re

        message = str(error)
        at = re.search(r"\(at line (\d+), column \d+\)", message)
        line = int(at[1]) if at else text.count("\n") + 1
        message = re.sub(r"\s*\(at [^)]*\)", "", message)
        message = message[:1].lower() + message[1:]
        raise UserError(
            Text("{path}:{line}: this is not valid TOML: {message}", "{path}:{line}: 不是有效的 TOML：{message}",
                 path=_shown(path), line=line, message=message)
        ) from None  # fmt: skip


def _checked(s: Setting, value: Any, text: str, path: str) -> Any:
    """The value of a key when its type is right."""
    wanted: Text | None = None
    item = ""
    if s.kind == BOOL:
        if not isinstance(value, bool):
            wanted = Text("true or false", "true 或 false")
    elif s.kind == INT:
        least = _LEAST[s.name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wanted = Text("a whole number from {least}", "不小于 {least} 的整数", least=least)
    elif s.kind == LIST:
        if not _is_list(value):
            wanted = Text("a list of strings", "字符串列表")
        else:
            value = tuple(value)
    elif s.kind == TABLE:
        if not isinstance(value, dict):
            wanted = Text("a table of patterns with lists of rules", "由模式到规则列表的表")
        else:
            for pattern, rules in value.items():
                if not _is_list(rules):
                    wanted, item = Text("a list of rules for each pattern", "每个模式对应的规则列表"), pattern
                    break
            else:
                value = {pattern: tuple(rules) for pattern, rules in value.items()}
    elif not isinstance(value, str):
        wanted = Text("a string", "字符串")
    elif s.choices and value not in s.choices:
        wanted = Text("one of {choices}", "以下之一：{choices}", choices=", ".join(s.choices))
    if wanted is None:
        return value
    raise _at(
        text, path, (s.name,),
        Text("{key} must be {wanted}, not {value}", "{key} 必须是{wanted}，而不是 {value}",
             key=s.name, wanted=wanted, value=_toml(value)),
        _near_choice(value, s.choices), item,
    )  # fmt: skip


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _toml(value: Any) -> str:
    """A value as its writer would recognise it, short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{...}" if value else "{}"
    text = '"' + value + '"' if isinstance(value, str) else str(value).replace("'", '"')
    return text if len(text) <= 40 else text[:37] + "..."


def _apply_command(options: Options, command: Mapping[str, Any]) -> None:
    options.given = frozenset(command)
    for name, value in command.items():
        s = _BY_NAME[name]
        if s.kind == INT and value < _LEAST[name]:
            raise UserError(
                Text("--{name} must be a whole number from {least}, not {value}",
                     "--{name} 必须是不小于 {least} 的整数，而不是 {value}", name=name, least=_LEAST[name], value=value)
            )  # fmt: skip
        if name.startswith("extend-"):  # adds to the file's
            value = (*getattr(options, s.attribute), *value)
        elif name == "ignore" and "select" not in command:
            value = (*options.ignore, *value)
        setattr(options, s.attribute, tuple(value) if s.kind == LIST else value)
    if "select" in command:  # whoever selects on the command line means just that, as with ruff
        if "ignore" not in command:
            options.ignore = ()
        if "extend-select" not in command:
            options.extend_select = ()


def parse_per_file_ignores(items: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`PATTERN:RULE` pairs of the command line as the table that a file holds."""
    table: dict[str, tuple[str, ...]] = {}
    for item in items:
        pattern, colon, rule = item.rpartition(":")
        if not colon or not pattern or not rule:
            raise UserError(
                Text("--per-file-ignores needs PATTERN:RULE, not {item}",
                     "--per-file-ignores 需要 PATTERN:RULE，而不是 {item}", item=item),
                Text("for example 'tests/*:TV202'", "例如 'tests/*:TV202'"),
            )  # fmt: skip
        table[pattern] = (*table.get(pattern, ()), rule)
    return table


def line_of(text: str, path: str, keys: tuple[str, ...], item: str = "") -> int:
    """The line (from 1) of a key of ours in a TOML text, or of `item` inside its value; of the table when not found."""
    import re

    in_pyproject = os.path.basename(path) == "pyproject.toml"
    prefix = ["tool", "torchvet"] if in_pyproject else []
    wanted = [*prefix, *keys]
    table: list[str] = []
    fallback = 1
    start = 0
    lines = text.split("\n")
    word = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
    dotted = rf"{word}(?:\s*\.\s*{word})*"
    for number, line in enumerate(lines, 1):
        header = re.match(rf"\s*\[+\s*({dotted})\s*\]", line)
        if header:
            table = [w.strip("\"'") for w in re.findall(word, header[1])]
            at = table
        else:
            key = re.match(rf"\s*({dotted})\s*=", line)
            if not key:
                continue
            at = table + [w.strip("\"'") for w in re.findall(word, key[1])]
        if at[: len(wanted)] == wanted:
            start = number
            break
        if at[: len(prefix)] == prefix and fallback == 1:
            fallback = number
    if not start:
        for number in range(fallback, len(lines) + 1):  # an inline table: torchvet = {select = ...}
            if keys and re.search(rf"(?<![\w-]){re.escape(keys[-1])}[\"']?\s*=", lines[number - 1]):
                start = number
                break
        else:
            return fallback
    if item:
        quoted = re.compile(rf"""["']{re.escape(item)}["']|^\s*{re.escape(item)}\s*=""")
        for number in range(start, len(lines) + 1):
            if quoted.search(lines[number - 1]):
                return number
    return start


def _at(text: str, path: str, keys: tuple[str, ...], message: Text, hint: object = "", item: str = "") -> UserError:
    line = line_of(text, path, keys, item)
    return UserError(
        Text("{path}:{line}: {message}", path=_shown(path), line=line, message=message),
        hint,
    )


def _shown(path: str) -> str:
    shown = os.path.relpath(path)
    return path if shown.startswith("..") else shown


def _near_choice(value: object, choices: tuple[str, ...]) -> object:
    return did_you_mean(value, choices) if isinstance(value, str) and choices else ""


def _bad_choice(name: str, value: str, choices: tuple[str, ...]) -> UserError:
    return UserError(
        Text("{name} must be one of {choices}, not {value}", "{name} 必须是以下之一：{choices}，而不是 {value}",
             name=name, choices=", ".join(choices), value=value),
        did_you_mean(value, choices),
    )  # fmt: skip


def did_you_mean(word: str, known: Iterable[str]) -> Text | str:
    """A hint that names the nearest known word; "" when none is near."""
    near = nearest(word, known)
    return Text("did you mean {near}?", "是否想写 {near}？", near=near) if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like `word` (case and `_` do not count), or ""."""
    from difflib import get_close_matches

    plain = {k.lower().replace("_", "-"): k for k in known}
    found = get_close_matches(word.lower().replace("_", "-"), plain, 1, 0.6)
    if not found:  # "format" for "output-format"
        found = [k for k in plain if len(word) > 2 and word.lower().replace("_", "-") in k.split("-")][:1]
    return plain[found[0]] if found else ""
