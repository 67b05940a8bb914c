"""Completion in bash, zsh and fish: click's, whose answers are whole words, `--pass=canonicalize` for `--pass=can`.

click answers with the value alone.  zsh and fish put that in the place of the word with its option.  bash takes `=` for the
end of a word and asks for what follows it, but hands its pieces over as words of their own: `--pass`, `=`, `can`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from .completers import paths

__all__ = ["completion_script", "register"]

BREAKS = ("=", ":")
"""Characters that end a word for bash (COMP_WORDBREAKS) and none for us."""

_BASH = """\
%(complete_func)s() {
    local line response
    response=$(IFS=$'\\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS= read -r line; do
        [[ $line == path,* ]] && compopt -o filenames 2>/dev/null
        [[ -n $line ]] && COMPREPLY+=("${line#*,}")
    done <<< "$response"
    # more is to follow an option's = and a folder's /
    [[ ${COMPREPLY[0]-} == *[=/{] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a response described
    local type key description
    (( $+commands[%(prog_name)s] )) || return 1
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete %(prog_name)s)}")
    for type key description in $response; do
        if [[ $description != _ ]]; then
            described+=("${key//:/\\\\:}:$description")
        elif [[ $key == *[=/{] ]]; then
            compadd -U -S '' -V unsorted -- "$key"
        else
            compadd -U -V unsorted -- "$key"
        fi
    done
    (( $#described )) && _describe -V unsorted described -U
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) %(prog_name)s)
    for completion in $response
        string split --max 1 --fields 2 , -- $completion
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _WholeWords(ShellComplete):
    """Completions of the whole word, files among them by name."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        option, equals, _ = incomplete.partition("=")
        head = f"{option}=" if equals and option.startswith("--") else ""
        items = super().get_completions(args, incomplete)
        return [self._item(head, found) for item in items for found in _with_names(item)]

    def _item(self, head: str, item: CompletionItem) -> CompletionItem:
        return CompletionItem(f"{head}{item.value}", item.type, item.help)


def _with_names(item: CompletionItem) -> Iterator[CompletionItem]:
    """click leaves files to the shell, which knows nothing of the option before them."""
    if item.type in ("file", "dir"):
        yield from paths(item.value)
    else:
        yield item


class _Bash(_WholeWords, BashComplete):
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        *words, last = _joined(super().get_completion_args())
        return words, last

    def _item(self, head: str, item: CompletionItem) -> CompletionItem:
        """Replacement of the last of bash's words."""
        _, last = super().get_completion_args()
        word = self.get_completion_args()[1]
        known = len(word) - (0 if last in BREAKS else len(last))
        return CompletionItem(f"{head}{item.value}"[known:], item.type, item.help)


def _joined(words: tuple[list[str], str]) -> list[str]:
    """Words as the user sees them, of bash's."""
    joined: list[str] = []
    is_open = False
    for word in (*words[0], words[1]):
        if joined and word and (is_open or word in BREAKS):
            joined[-1] += word
        else:
            joined.append(word)
        is_open = word in BREAKS
    return joined


class _Zsh(_WholeWords, ZshComplete):
    source_template = _ZSH


class _Fish(_WholeWords, FishComplete):
    source_template = _FISH


def register() -> None:
    """Have click answer by these classes."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)


def completion_script(command: click.Command, shell: str) -> str:
    """The script that makes `shell` complete the options and values of `command`."""
    shells: dict[str, Any] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
    name = command.name or ""
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    return str(shells[shell](command, {}, name, variable).source())
