"""The job of a config's synthetic sector: found in a folder, or made there."""

from __future__ import annotations

from pathlib import Path

from torchzk.circuits.registered import default_seal
from torchzk.circuits.sectors import SECTOR_SHAPES
from torchzk.circuits.synthetic import SectorName, make_sector
from torchzk.circuits.synthetic_jobs import write_job
from torchzk.config import cache_folder
from torchzk.errors import ConfigError
from torchzk.files import make_folder
from torchzk.scheduler.session import Session

SECTOR_NUMBER, MINER_ID = 7, 1000
"""Of synthetic sectors unless somebody says otherwise, as of those that Rust synthesised."""


def sector_name(name: str, sector_size: int) -> SectorName:
    """The synthetic sector of that name and size, of the usual miner and number.

    Raises:
        ConfigError: No registered proof is of that size.
    """
    registered = default_seal(sector_size)
    if registered is None:
        raise ConfigError(
            f"synthetic: sectors of {SECTOR_SHAPES[sector_size].name} have no registered proof; "
            "name a job file as input"
        )
    return SectorName(name, registered, SECTOR_NUMBER, MINER_ID)


def synthetic_job(session: Session) -> Path:
    """The job's file, named by all that it follows from, so that one that is there is right.

    Raises:
        ConfigError: The config names no synthetic sector, there is none of that size, or its
            folder cannot be written.
        ResourceError: The disk is full.
    """
    config = session.config
    name, kind, n_bytes = config.synthetic, config.circuit.kind, config.circuit.sector_size
    if name is None:
        raise ConfigError("input: no job file, and no synthetic sector")
    of = sector_name(name, n_bytes)
    folder = config.input_cache or cache_folder("input_cache", "inputs")
    path = folder / f"{name}-{kind}-{SECTOR_SHAPES[n_bytes].name}.json"
    session.warn(f"the sector {name} is synthetic: it stores nothing, and neither says its proof")
    if not path.is_file():
        make_folder(folder)
        with session.timeline.span("make input"):
            sector = make_sector(of, session.backend, session.device, session.timeline)
            write_job(path, sector, kind)
    return path
