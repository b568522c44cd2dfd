"""completing - names of jobs and verbs for the shell: `completion`, and the type JOB of an argument.

Owns what is offered after a Tab: the jobs with which the verb can do something, live ones first, then those that have ended.
Never fails: where nothing can be found nothing is offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from spoold.cli.program import Session, verb
from spoold.cli.terminal import say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from spoold.model import Stage

SHELLS: Final = ("bash", "zsh", "fish")
_MOST: Final = 200
_WHERE: Final = {
    "bash": 'eval "$(spoold completion bash)"         in ~/.bashrc',
    "zsh": 'eval "$(spoold completion zsh)"          in ~/.zshrc, after compinit',
    "fish": "spoold completion fish | source          in ~/.config/fish/config.fish",
}


class Job(click.ParamType[str]):
    """A JOB on the command line; `stages` are those in which the verb can do something with it, none for all."""

    name = "job"

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from spoold.archive import names_of
        from spoold.cli.jobs import ENDED, EVERYWHERE, Jobs
        from spoold.errors import SpooldError
        from spoold.store import Store

        try:
            jobs = Jobs(Store(ctx.ensure_object(Session).layout))
            wanted = self.stages or EVERYWHERE
            found = {place.name: place.stage.value for place in jobs.live() if place.stage in wanted and place.name.startswith(incomplete)}
            for stage in (stage for stage in ENDED if stage in wanted):
                for entry in jobs.store.stage_entries(stage):
                    if len(found) >= _MOST:
                        break
                    for _, name in names_of(entry)[-1:]:
                        if name.startswith(incomplete):
                            found.setdefault(name, stage.value)
        except (SpooldError, OSError):
            return []
        return [CompletionItem(name, help=stage) for name, stage in found.items()]


JOB: Final = Job()


@verb("completion", examples="\n".join(_WHERE.values()))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for a shell.

    It completes verbs, options and the names of jobs.
    """
    from click.shell_completion import get_completion_class

    from spoold.cli.program import program

    found = get_completion_class(shell)
    assert found is not None
    say(found(program, {}, "spoold", "_SPOOLD_COMPLETE").source())
    return 0
