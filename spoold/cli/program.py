"""program - the command `spoold`: its verbs, each loaded when it is called, and what all of them have in common.

Owns the list of verbs, --spool and --version, and the form of the help.  Fails: click's own usage errors, which `main` turns into exit code 64.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from spoold.cli.spools import find_spool
from spoold.cli.terminal import Screen, say
from spoold.layout import Layout

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SECTIONS: Final = {
    "Queue": {"submit": "submitting", "check": "checking", "ls": "listing"},
    "Understand": {"why": "explaining", "show": "showing", "log": "following", "wait": "waiting"},
    "Reorder": {
        "move": "moving",
        "hold": "moving",
        "release": "moving",
        "stop": "stopping",
        "again": "stopping",
        "pause": "pausing",
        "resume": "pausing",
    },
    "Set up": {"init": "making", "run": "making", "doctor": "doctoring", "completion": "completing"},
}
_VERBS: Final = {verb: module for verbs in _SECTIONS.values() for verb, module in verbs.items()}
_HELP: Final = {"help_option_names": ["-h", "--help"]}


@dataclass(slots=True)
class Session:
    """One call of the command: the spool that was named, and where its words go."""

    option: str | None = None
    _layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = find_spool(self.option)
        return self._layout

    @property
    def screen(self) -> Screen:
        return Screen.now()


pass_session = click.make_pass_decorator(Session, ensure=True)


def _choose_spool(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).option = value


def _spool_option() -> click.Option:
    return click.Option(
        ["--spool"],
        metavar="DIR",
        expose_value=False,
        callback=_choose_spool,
        is_eager=True,
        help="The spool; else $SPOOLD_SPOOL, ./spool, ~/spool.",
    )


class Verb(click.Command):
    """A verb: takes --spool too, and ends its help with examples."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs["context_settings"] = {**_HELP, **kwargs.get("context_settings", {})}
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.append(_spool_option())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples.strip("\n").splitlines():
                formatter.write(f"  {line}\n")


def verb(name: str, *, examples: str, **settings: Any) -> Callable[[Callable[..., int]], Verb]:
    """Declare a verb; the function's docstring is its help, and what it returns is the exit code."""

    def declare(function: Callable[..., int]) -> Verb:
        command = click.command(name, cls=Verb, examples=examples, **settings)(function)
        assert isinstance(command, Verb)
        return command

    return declare


class Program(click.Group):
    """All verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _VERBS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(f"spoold.cli.{module}"), cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _VERBS, n=1, cutoff=0.5)
            raise click.UsageError(f"there is no verb {args[0]}" + (f", did you mean {near[0]}?" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # without their help: a Tab must not load every verb
        return [
            *(CompletionItem(name) for name in _VERBS if name.startswith(incomplete)),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, verbs in _SECTIONS.items():
            rows = []
            for name in verbs:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name, command.get_short_help_str(64)))
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from spoold import __version__

        say(f"spoold {__version__}")
        context.exit()


@click.command(cls=Program, invoke_without_command=True, context_settings=_HELP, params=[_spool_option()])
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version.")
@click.pass_context
def program(context: click.Context) -> int:
    """One queue for one box: a job is a file, and where the file lies is its state.

    Without a verb: whether a spooler runs, what runs now, what waits and why, what ended last.
    A JOB is a NAME, a file name, a number, @ for the last one submitted, or a glob where several make sense.
    """
    session = context.ensure_object(Session)
    if context.invoked_subcommand is not None:
        return 0
    from spoold.cli.overview import overview

    return overview(session)
