"""Make development keys: `python -m torchzk.setup --config FILE --out DIR`. Insecure ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torchzk import cli
from torchzk.errors import ConfigError
from torchzk.recorded import backend_report, recorded_session
from torchzk.summary import print_facts, print_stages, size, stage_seconds


def _parser() -> cli.Parser:
    parser = cli.Parser("torchzk.setup", "Make insecure development keys from known secrets.")
    cli.add_config_flags(parser, job=False)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the .params and the .vk"
    )
    parser.add_argument(
        "--toxic-waste",
        type=Path,
        metavar="FILE.json",
        help="the five secrets; by default those that everybody knows",
    )
    return parser


def _setup(args: argparse.Namespace, screen: cli.Screen) -> cli.Report:
    config = cli.config_of(args)
    if args.out.exists() and not args.out.is_dir():
        raise ConfigError(f"--out {args.out}: is not a folder")
    screen.warn(
        "INSECURE KEYS: whoever knows the secrets they are made from can forge proofs. "
        "For development alone"
    )
    with recorded_session(config, screen, "setup") as (run, session):
        from torchzk import api

        run.facts["outcome"] = "written"
        params, vk_path, vk = api.write_dev_keys(session, args.out, args.toxic_waste)
    report: cli.Report = {
        "circuit": session.circuit.name,
        "params": str(params),
        "vk": str(vk_path),
        "key_sha256": api.key_sha256(vk),
        "insecure_key": True,
        "device": str(session.device),
        **backend_report(session),
        "seconds": run.record().seconds,
        "stages": stage_seconds(run.spans),
        "run": str(run.folder() or "") or None,
    }
    print_stages(screen.console, run.record())
    print_facts(
        screen.console,
        [
            ("circuit", f"{session.circuit.name} on {run.facts['device']}", ""),
            ("backend", run.facts["backend"], ""),
            ("proving key", f"{params}, {size(params.stat().st_size)}", ""),
            ("verifying key", f"{vk_path}, {size(vk_path.stat().st_size)}", ""),
            ("key sha256", report["key_sha256"], ""),
            ("keys are", "INSECURE", "bold red"),
            ("timeline", report["run"] or "not kept", ""),
        ],
    )
    screen.answer(f"{params}\n{vk_path}")
    return report


def run(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return cli.execute(_parser(), _setup, argv)


if __name__ == "__main__":
    sys.exit(run())
