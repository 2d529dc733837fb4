"""What every command shares: --json, --quiet, --seed, ... and options made from settings."""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from tianci.errors import UserError
from tianci.settings import resolve, to_toml

S = TypeVar("S")
MOST_SEED = (1 << 32) - 1  # numpy and torch take no negative ones, and steps are reckoned in


@dataclasses.dataclass
class Run:
    """How this call was asked to behave, and its resolved settings."""

    json: bool = False
    quiet: bool = False
    seed: int = 0
    threads: int | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    assignments: tuple[str, ...] = ()  # as given, for a command that reads several recipes
    options: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def get(self, kind: type[S]) -> S:
        """The settings of one kind."""
        return next(value for value in self.settings.values() if isinstance(value, kind))

    def result(self, value: Any, text: str | Callable[[], str]) -> None:
        """Prints a result: as JSON on request, else for people."""
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False))
        else:
            click.echo(text if isinstance(text, str) else text())

    def note(self, text: str) -> None:
        """Says something that is not the result, on standard error, unless told to be quiet."""
        if not self.quiet:
            click.echo(text, err=True)


def command(
    name: str, *, example: str, settings: Mapping[str, type] | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a click command of a function whose first argument is the Run."""
    sections = dict(settings or {})

    def decorate(function: Callable[..., None]) -> click.Command:
        def call(**values: Any) -> None:
            run = _run(values, sections)
            if run is not None:
                function(run, **values)

        parameters = list(getattr(function, "__click_params__", []))[::-1]
        return click.Command(
            name,
            callback=call,
            params=[*parameters, *_setting_options(sections), *_common_options()],
            help=function.__doc__,
            epilog="\b\nExample:\n"
            + "\n".join("  " + line for line in example.strip().splitlines()),
            context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
            no_args_is_help=any(p.required for p in parameters),
        )

    return decorate


def _run(values: dict[str, Any], sections: Mapping[str, type]) -> Run | None:
    """Takes the shared options out of `values`; None when only the settings were asked for."""
    options: dict[str, dict[str, Any]] = {}
    for section, kind in sections.items():
        for field in dataclasses.fields(kind) if kind is not dict else ():
            value = values.pop(field.name, None)
            if value is not None and value != ():
                options.setdefault(section, {})[field.name] = value
    assignments, file = values.pop("assignments"), values.pop("settings_file")
    if recipe := values.get("recipe"):  # of commands that read one: settings from a file, too
        if file:
            raise UserError(f"--settings {file} and the recipe {recipe}: give one of them")
        file = recipe
    show, _ = values.pop("print_settings"), values.pop("debug")
    run = Run(
        json=values.pop("as_json"),
        quiet=values.pop("quiet"),
        seed=values.pop("seed"),
        threads=values.pop("threads"),
        settings=resolve(sections, file, assignments, options),
        assignments=assignments,
        options=options,
    )
    if show:
        click.echo(to_toml(run.settings), nl=False)
        return None
    if run.threads is not None:
        # before torch and tokenizers are imported: both read these once
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
            os.environ[variable] = str(run.threads)
    return run


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--json", "as_json"], is_flag=True, help="results as JSON on standard output"
        ),
        click.Option(["--quiet", "-q"], is_flag=True, help="no bar, no notes"),
        click.Option(
            ["--seed"],
            type=click.IntRange(0, MOST_SEED),
            default=0,
            show_default=True,
            help="random seed",
        ),
        click.Option(["--threads"], type=click.IntRange(1), help="CPU threads (default: all)"),
        click.Option(["--debug"], is_flag=True, help="show the traceback of an error"),
        click.Option(
            ["--set", "assignments"], multiple=True, metavar="SECTION.KEY=VALUE", help="one setting"
        ),
        click.Option(["--settings", "settings_file"], metavar="FILE", help="settings from TOML"),
        click.Option(
            ["--print-settings"], is_flag=True, help="show the resolved settings and stop"
        ),
    ]


def _setting_options(sections: Mapping[str, type]) -> list[click.Parameter]:
    """One option per field that has a help text."""
    options: list[click.Parameter] = []
    for kind in sections.values():
        if kind is dict:
            continue
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if "help" in field.metadata:
                options.append(_option(field, hints[field.name]))
    return options


def _option(field: dataclasses.Field[Any], hint: Any) -> click.Option:
    flag = field.metadata.get("flag") or "--" + field.name.replace("_", "-")
    default = field.default_factory() if callable(field.default_factory) else field.default
    shown = "" if default in (None, "", [], False) else f"  [default: {default}]"
    help_text = field.metadata["help"] + shown
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    if hint is bool:
        name = field.name.replace("_", "-")
        return click.Option([f"{flag}/--no-{name}", field.name], default=None, help=help_text)
    if typing.get_origin(hint) is typing.Literal:
        choice = click.Choice(typing.get_args(hint))
        return click.Option([flag, field.name], type=choice, help=help_text)
    if typing.get_origin(hint) is list:
        return click.Option([flag, field.name], multiple=True, help=help_text)
    kind = hint if hint in (int, float) else str
    return click.Option([flag, field.name], type=kind, help=help_text)
