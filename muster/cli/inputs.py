"""What commands are given: manifests from files, folders and standard input, a configuration, a time.

A file that cannot be read or parsed is said on standard error and the others go on; an option that cannot be used
ends the command with the status for that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from muster.cli.output import Exit, complain

if TYPE_CHECKING:
    from muster.app.config import Configuration
    from muster.model.documents import Document

FILES_HELP = "Manifests, folders of them, or - for standard input; may be given again."
Files = Annotated[list[str], typer.Option("-f", "--file", metavar="FILE…", help=FILES_HELP)]
CONFIG_HELP = "Kueue's Configuration file, or muster.yaml."
Config = Annotated[str, typer.Option("--config", metavar="FILE", help=CONFIG_HELP, show_default=False)]
PROFILE_HELP = "How workloads are decided: muster (the default), kueue or kube-default."
Profile = Annotated[str, typer.Option("--profile", metavar="NAME", help=PROFILE_HELP, show_default=False)]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse what Kueue refuses, even where the meaning is plain.")]
NOW_HELP = "Plan as of this time; else as of the latest time in the objects, or now."
Now = Annotated[str, typer.Option("--now", metavar="TIME", help=NOW_HELP, show_default=False)]


class FilesCommand(TyperCommand):
    """A command whose -f takes all that follows it up to the next option, so that a shell's pattern works."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(each_with_option(args)))


def each_with_option(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments with -f before every file: -f a b is -f a -f b."""
    is_listing = is_first = False
    for argument in arguments:
        if argument.startswith("-") and argument != "-":
            is_listing = is_first = argument in ("-f", "--file")
        elif is_listing:
            if not is_first:
                yield "-f"
            is_first = False
        yield argument


def gather(files: Sequence[str]) -> tuple[list[Document], bool]:
    """The objects of all files that can be read, and whether any could not."""
    from muster.app.manifests import STDIN, manifest_files, read_manifests
    from muster.model.errors import InvalidObject

    documents: list[Document] = []
    has_failed = False
    seen: set[str] = set()
    for argument in files:
        try:
            parts = [argument] if argument == STDIN else [path.as_posix() for path in manifest_files(argument)]
        except InvalidObject as problem:
            complain(problem)
            has_failed = True
            continue
        for part in parts:
            identity = part if part == STDIN else os.path.realpath(part)
            if identity in seen:
                continue
            seen.add(identity)
            try:
                documents += read_manifests((part,), sys.stdin.buffer)
            except InvalidObject as problem:
                complain(problem)
                has_failed = True
    return documents, has_failed


def configured(config: str, *, profile: str, strict: bool) -> Configuration:
    """The configuration of a file, or the defaults; ends the command when it or the profile cannot be used."""
    from dataclasses import replace

    from muster.app.config import Configuration, parse_configuration
    from muster.app.manifests import read_file
    from muster.model.errors import InvalidObject, InvalidObjects

    try:
        configuration = parse_configuration(read_file(Path(config)), config) if config else Configuration()
    except InvalidObject as problem:
        several = problem.problems if isinstance(problem, InvalidObjects) else (problem,)
        complain(*several, label="" if several[0].path.startswith(config) else f"{config}: ")
        raise typer.Exit(Exit.USAGE) from None
    complain(*configuration.notes, label=f"{config}: warning: ")
    if profile:
        try:
            configuration = configuration.with_profile(profile, "--profile")
        except InvalidObject as problem:
            complain(problem)
            raise typer.Exit(Exit.USAGE) from None
    return replace(configuration, strict_validation=True) if strict else configuration


def moment_given(text: str) -> float | None:
    """The time of an option; `None` when it was not given."""
    from muster.model.errors import InvalidObject
    from muster.model.times import parse_moment

    if not text:
        return None
    try:
        return parse_moment(text, "--now")
    except InvalidObject as problem:
        complain(problem)
        raise typer.Exit(Exit.USAGE) from None
