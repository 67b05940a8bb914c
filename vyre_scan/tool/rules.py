"""Rules of scanners for secrets: the configuration of gitleaks, as it is.

A match of a rule is a finding unless one of the rule's conditions drops it, which see the secret (a group of the match), the
match, the line and the path: entropy, lists of what is allowed, and keywords, one of which a file must have.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from vyre_opt.cli.errors import ToolError
from vyre_opt.cli.text_files import read_bytes
from vyre_opt.records import dataclass

from ..patterns.rule import entropy_of

__all__ = ["GitleaksRule", "RuleSet", "read_rules"]

MOST_EXTENSIONS = 2
"""Files that a configuration may extend one after the other, as gitleaks has it."""
TARGETS = ("secret", "match", "line")


@dataclass(slots=True)
class _Allowlist:
    """Allowlist: matches that are no finding, by one of its kinds of conditions, or by all of them (`is_and`)."""

    paths: list[re.Pattern[bytes]]
    regexes: list[re.Pattern[bytes]]
    stopwords: list[bytes]
    target: str
    is_and: bool
    rules: frozenset[str] = frozenset()

    def allows(self, path: bytes, texts: dict[str, bytes]) -> bool:
        checks = []
        if self.paths:
            checks.append(any(pattern.search(path) for pattern in self.paths))
        if self.regexes:
            checks.append(any(pattern.search(texts[self.target]) for pattern in self.regexes))
        if self.stopwords:
            secret = texts["secret"].lower()
            checks.append(any(word in secret for word in self.stopwords))
        return bool(checks) and (all(checks) if self.is_and else any(checks))


@dataclass(slots=True)
class GitleaksRule:
    """Rule as gitleaks has it.  `regex`: "" for a rule of paths alone."""

    name: str
    description: str = ""
    regex: str = ""
    path: re.Pattern[bytes] | None = None
    entropy: float = 0.0
    group: int = 0
    keywords: list[bytes] = field(default_factory=list)
    allowlists: list[_Allowlist] = field(default_factory=list)


@dataclass(slots=True)
class RuleSet:
    """Rules of a file: `rules` have an expression each, whose number is that of its pattern; `of_paths` have none."""

    rules: list[GitleaksRule] = field(default_factory=list)
    of_paths: list[GitleaksRule] = field(default_factory=list)
    allowlists: list[_Allowlist] = field(default_factory=list)

    def searches(self, path: str) -> bool:
        """Whether a file is searched, by the paths that are allowed for all rules."""
        name = os.fsencode(path)
        return not any(
            pattern.search(name)
            for one in self.allowlists
            if not one.is_and and not one.rules
            for pattern in one.paths
        )

    def secret(self, number: int, pattern: re.Pattern[bytes], match: bytes) -> bytes:
        """Secret of a match: the group that the rule names, else the first one that is not empty."""
        alone = pattern.fullmatch(match) or pattern.match(match)
        group = self.rules[number].group
        if alone is None or group > pattern.groups:  # None: its surroundings belong to it
            return match
        return alone[group] or b"" if group else next(filter(None, alone.groups()), match)

    def accepts(self, number: int, path: str, secret: bytes, match: bytes, line: bytes, text: bytes) -> bool:
        """Whether a match is a finding.  `text`: where one of the keywords must be."""
        rule, name = self.rules[number], os.fsencode(path)
        if rule.path is not None and not rule.path.search(name):
            return False
        if rule.keywords and not any(word in match.lower() for word in rule.keywords):
            lowered = text.lower()
            if not any(word in lowered for word in rule.keywords):
                return False
        if rule.entropy and entropy_of(secret) <= rule.entropy:
            return False
        texts = {"secret": secret, "match": match, "line": line}
        common = (one for one in self.allowlists if not one.rules or rule.name in one.rules)
        return not any(one.allows(name, texts) for one in (*rule.allowlists, *common))


def read_rules(path: str, depth: int = 0) -> RuleSet:
    """The rules of a file in TOML, which `depth` others extend.  Raises ToolError, which names the file and the rule that is wrong."""
    try:
        config = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ToolError(f"{path} is no TOML: {error}") from None
    extend = _table(config.get("extend", {}), path, "extend")
    base = RuleSet()
    if extend.get("useDefault"):
        raise ToolError(
            f"{path}: [extend] useDefault means gitleaks' own file: write its path as `path` there"
        )
    if extend.get("path"):
        if depth == MOST_EXTENSIONS:
            raise ToolError(f"{path}: files extend each other {depth} deep at most")
        base = read_rules(os.path.join(os.path.dirname(path), str(extend["path"])), depth + 1)
    rules = {rule.name: rule for rule in (*base.rules, *base.of_paths)}
    tables = config.get("rules", [])
    if not isinstance(tables, list):
        raise ToolError(f"{path}: `rules` is no list of tables: write [[rules]]")
    for number, table in enumerate(tables):
        table = _table(table, path, f"rules[{number}]")
        name = table.get("id")
        if not isinstance(name, str) or not name:
            raise ToolError(f"{path}: rules[{number}] has no `id`")
        rules[name] = _rule(table, f"{path}: rule {name}", rules.get(name, GitleaksRule(name)))
    for name in extend.get("disabledRules", []):
        rules.pop(name, None)
    allowlists = [*base.allowlists, *_allowlists(config, path)]
    if not rules:
        raise ToolError(f"{path} has no rules: gitleaks has them as [[rules]]")
    expressions = [rule for rule in rules.values() if rule.regex]
    return RuleSet(expressions, [rule for rule in rules.values() if not rule.regex], allowlists)


def _rule(table: dict[str, Any], where: str, base: GitleaksRule) -> GitleaksRule:
    """The rule of a table, with what `base` has besides."""
    regex, path = _text(table, "regex", where), _text(table, "path", where)
    entropy, group = table.get("entropy", 0), table.get("secretGroup", 0)
    if isinstance(entropy, bool) or not isinstance(entropy, (int, float)):
        raise ToolError(f"{where}: its `entropy` is a number, not {entropy!r}")
    if not isinstance(group, int):
        raise ToolError(f"{where}: its `secretGroup` is the number of a group, not {group!r}")
    keywords = [word.lower().encode() for word in _texts(table, "keywords", where)]
    allowlists = _allowlists(table, where)
    compiled = _compiled([path], where)[0] if path else None
    if not (regex or base.regex or path or base.path):
        raise ToolError(f"{where}: it has no `regex` and no `path`")
    return GitleaksRule(
        base.name,
        _text(table, "description", where) or base.description,
        regex or base.regex,
        compiled or base.path,
        float(entropy) or base.entropy,
        group or base.group,
        [*base.keywords, *keywords],
        [*base.allowlists, *allowlists],
    )


def _allowlists(table: dict[str, Any], where: str) -> list[_Allowlist]:
    tables = [table[name] for name in ("allowlist", "allowList") if name in table]
    several = table.get("allowlists", [])
    tables += several if isinstance(several, list) else [several]
    return [_allowlist(_table(one, where, "allowlist"), where) for one in tables]


def _allowlist(table: dict[str, Any], where: str) -> _Allowlist:
    target = table.get("regexTarget") or "secret"
    condition = str(table.get("condition") or "OR").upper()
    if target not in TARGETS or condition not in ("OR", "||", "AND", "&&"):
        raise ToolError(
            f"{where}: an allowlist has the regexTarget {target!r} and the condition {condition!r}"
        )
    return _Allowlist(
        _compiled(_texts(table, "paths", where), where),
        _compiled(_texts(table, "regexes", where), where),
        [word.lower().encode() for word in _texts(table, "stopwords", where)],
        target,
        condition in ("AND", "&&"),
        frozenset(_texts(table, "targetRules", where)),
    )


def _compiled(expressions: Iterable[str], where: str) -> list[re.Pattern[bytes]]:
    from ..patterns.errors import PatternError
    from ..patterns.rule_syntax import parsed

    patterns = []
    for expression in expressions:
        try:
            patterns.append(re.compile(parsed(expression.encode(), 0, where, is_text=True)[0]))
        except PatternError as error:
            raise ToolError(f"{where}: {expression!r}: {error.diagnostics[0].message}") from None
    return patterns


def _table(value: Any, path: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolError(f"{path}: `{name}` is no table")
    return value


def _text(table: dict[str, Any], name: str, where: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise ToolError(f"{where}: its `{name}` is text, not {value!r}")
    return value


def _texts(table: dict[str, Any], name: str, where: str) -> list[str]:
    values = table.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ToolError(f"{where}: its `{name}` is a list of texts")
    return values
