"""Choice of the files that are searched: the named ones, and in named folders those of grep -r, or of ripgrep."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["STDIN", "TYPES", "files_of"]

STDIN = "-"
IGNORE_FILES = (".ignore", ".gitignore")
"""Names of files with rules; what the first one says counts before the second."""

TYPES = {
    name: tuple(globs.split())
    for name, globs in {
        "c": "*.c *.h", "cpp": "*.cc *.cpp *.cxx *.hh *.hpp *.hxx *.h", "config": "*.cfg *.conf *.config *.ini",
        "cs": "*.cs", "css": "*.css *.scss *.less", "csv": "*.csv", "cuda": "*.cu *.cuh", "docker": "*Dockerfile*",
        "env": ".env *.env .env.*", "go": "*.go", "html": "*.htm *.html", "java": "*.java *.jsp", "js": "*.js *.jsx *.cjs *.mjs",
        "json": "*.json *.jsonl composer.lock", "kotlin": "*.kt *.kts", "log": "*.log", "lua": "*.lua",
        "make": "[Mm]akefile *.mk *.mak CMakeLists.txt", "markdown": "*.markdown *.md *.mdx", "mbox": "*.eml *.mbox",
        "notebook": "*.ipynb", "perl": "*.pl *.pm", "php": "*.php *.php[3-8] *.phtml", "ps": "*.ps1 *.psm1 *.psd1",
        "py": "*.py *.pyi", "r": "*.R *.r *.Rmd", "rst": "*.rst", "ruby": "*.rb *.gemspec Gemfile Rakefile", "rust": "*.rs",
        "scala": "*.scala *.sbt", "sh": "*.sh *.bash *.zsh *.ksh .bashrc .profile", "sql": "*.sql *.psql", "swift": "*.swift",
        "tex": "*.tex *.sty *.bib", "tf": "*.tf *.tfvars *.hcl", "toml": "*.toml Cargo.lock", "ts": "*.ts *.tsx *.cts *.mts",
        "txt": "*.txt", "vyre": "*.vyre", "xml": "*.xml *.xsl *.xslt *.svg", "yaml": "*.yaml *.yml",
    }.items()
}  # fmt: skip
"""Names of files, by the types of -t."""


def files_of(paths: Sequence[str], options: Any, report: Callable[[str], None]) -> Iterator[str]:
    """The paths of the named files, and of the files in named folders, in the order of names.

    No paths stand for the current folder, whose files are named without it.  Links in folders are not followed, and devices and
    pipes in them are left out.  `options`: those of the command line.  `report` gets a message for each folder that cannot be read.
    """
    walk = _Walk(options, report)
    if not paths:
        yield from walk.files("")
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            if path == STDIN or walk.takes_name(os.path.basename(path)):
                yield path
        elif not walk.skips_folder(os.path.basename(os.path.normpath(path))):
            yield from walk.files(path)


Rules = tuple[tuple[str, "GitIgnoreSpec"], ...]
"""The rules of ignore files, the innermost first, each with its folder as an absolute path that ends with a slash."""


class _Walk:
    def __init__(self, options: Any, report: Callable[[str], None]) -> None:
        self.options, self.report = options, report
        self._takes = _any_of(options.include)
        self._of_types = _any_of([glob for name in options.type for glob in TYPES[name]])
        self._skips = _any_of([*options.exclude, *(g for name in options.type_not for g in TYPES[name])])
        self._skips_folders = _any_of(options.exclude_dir)
        self._globs = _spec(options.glob) if options.glob else None

    def takes_name(self, name: str) -> bool:
        """Whether a file's name is among those of --include and the types, and not excluded."""
        chosen = all(one is None or one.match(name) for one in (self._takes, self._of_types))
        return chosen and not (self._skips and self._skips.match(name))

    def skips_folder(self, name: str) -> bool:
        return bool(self._skips_folders and self._skips_folders.match(name))

    def files(self, top: str) -> Iterator[str]:
        chosen = self.options
        minds_ignored = not (chosen.recursive or chosen.no_ignore)
        root, is_repository = os.path.join(os.path.realpath(top or os.curdir), ""), False
        rules: Rules = ()
        if minds_ignored:
            is_repository, rules = self._rules_above(root)
        shift = len(os.path.join(top, ""))
        folders = [(top, rules)]
        while folders:
            path, rules = folders.pop()
            try:
                with os.scandir(path or None) as iterator:
                    entries = sorted(iterator, key=attrgetter("name"))
            except OSError as error:
                self.report(f"cannot read {path or os.curdir}: {error.strerror}")
                continue
            prefix = os.path.join(path, "")
            if minds_ignored:
                ignores = [name for name in IGNORE_FILES if is_repository or name == ".ignore"]
                rules = (*self._rules_in(prefix, root + prefix[shift:], ignores), *rules)
            inner = []
            for entry in entries:
                name = entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    continue
                if not (chosen.hidden or chosen.recursive) and name[0] == ".":
                    continue
                if self.skips_folder(name) if is_folder else not self.takes_name(name):
                    continue
                place = prefix + name
                has_rules = rules or self._globs
                if has_rules and self._is_ignored(place, root + place[shift:], rules, is_folder):
                    continue
                if is_folder:
                    inner.append((place, rules))
                else:
                    yield place
            folders += reversed(inner)

    def _is_ignored(self, place: str, absolute: str, rules: Rules, is_folder: bool) -> bool:
        """Whether a place is ignored: by the last glob of -g that fits, else by the innermost ignore file with a rule that does."""
        slash = "/" * is_folder
        if self._globs is not None:
            fits = self._globs.check_file(place + slash).include
            if fits is not None:
                return not fits
            if not is_folder and any(glob[0] != "!" for glob in self.options.glob):
                return True
        for folder, spec in rules:
            fits = spec.check_file(absolute[len(folder) :] + slash).include
            if fits is not None:
                return fits
        return False

    def _rules_above(self, root: str) -> tuple[bool, Rules]:
        """Whether a folder is in a repository of git, and the rules of the folders above it there."""
        rules: Rules = ()
        folder = os.path.dirname(root)
        while not os.path.exists(os.path.join(folder, ".git")):
            folder, inner = os.path.dirname(folder), folder
            if folder == inner:
                return False, ()
            prefix = os.path.join(folder, "")
            rules += self._rules_in(prefix, prefix, IGNORE_FILES)
        return True, rules

    def _rules_in(self, path: str, folder: str, names: Sequence[str]) -> Rules:
        """The rules of the ignore files with some names in a folder, read at its `path`."""
        specs = [(folder, self._spec_of(path + name)) for name in names]
        return tuple((folder, spec) for folder, spec in specs if spec is not None)

    def _spec_of(self, path: str) -> GitIgnoreSpec | None:
        """The rules of an ignore file; None where it is missing or cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return _spec(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.report(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")
            return None


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(translate, globs))) if globs else None


def _spec(lines: Sequence[str] | Iterator[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)
