"""The ways of this program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ship_build import raw_name
from ship_hosts import holds, name_raw, staged_most
from ship_images import CREATED, INSTRUCTIONS, REPOSITORY
from ship_setup import BUILDER, Sample, Setup, counted, registry_of, running

ONCE = Path(__file__).with_name("ship_once.py")


def ours(
    setup: Setup,
    wanted: str,
    hosts: Sequence[str],
    *,
    minimize: bool = False,
    via: bool = False,
    built: bool = False,
) -> Sample:
    """Ship a release by this program, in a process of its own. A difference is made anew.

    Args:
        minimize: with `--minimize bytes`.
        via: by the registry.
        built: beginning with what a builder has when its build is finished; into a store that is empty.

    Raises:
        SystemExit: a host does not verify.
    """
    shutil.rmtree(setup.store.root / "differences", ignore_errors=True)
    release = setup.releases[wanted]
    order: dict[str, object] = {
        "store": str(setup.store.root),
        "key": release.key,
        "reference": release.reference,
        "files": dict(release.files),
        "hosts": list(hosts),
        "ssh_config": str(setup.ssh_config),
        "minimize": minimize,
        "registry": None,
        "built_on": "",
        "instructions": list(INSTRUCTIONS),
        "created": CREATED,
    }
    environ = dict(os.environ)
    beside: tuple[str, ...] = ()
    if via:
        registry = registry_of(setup)
        order["registry"] = [registry.host, REPOSITORY]
        environ["SSL_CERT_FILE"] = str(registry.certificate / "ca.crt")
        beside = (registry.builder,)
    with tempfile.TemporaryDirectory(prefix="benchmark-store.", dir=setup.store.root.parent) as fresh:
        if built:
            on_builder(setup, wanted)
            name_raw(BUILDER, release, raw_name(release.key))
            order |= {"store": fresh, "built_on": BUILDER}
        with counted(hosts, beside) as add:
            found, began = _once(order, environ)
            sample = add(Sample(found["ended"] - began, 0, found["cpu"], peak=found["peak"]))
    if found["failed"]:
        raise SystemExit("\n".join(found["failed"]))
    return replace(sample, course=tuple(map(tuple, found["course"])))


def watched(setup: Setup, wanted: str, hosts: Sequence[str]) -> Sample:
    """As `ours` to one host, with its staging folder watched all the time: its seconds are no measure."""
    with staged_most(hosts[0]) as most:
        sample = ours(setup, wanted, hosts)
    return replace(sample, staged=most[0])


def _once(order: dict[str, object], environ: Mapping[str, str]) -> tuple[dict[str, Any], float]:
    """What a ship in a process of its own told, and when it was started."""
    began = order["began"] = time.monotonic()
    with running([sys.executable, str(ONCE)], signal.SIGINT, environ) as process:
        told = process.communicate(json.dumps(order).encode())[0]
    if process.returncode != 0:
        raise SystemExit(f"the ship ended with {process.returncode}: {told.decode(errors='replace')}")
    return json.loads(told.splitlines()[-1]), began


def on_builder(setup: Setup, wanted: str) -> None:
    """Have a release in the builder's engine."""
    if not holds(BUILDER, setup.releases[wanted].unique):
        ours(setup, wanted, [BUILDER])
