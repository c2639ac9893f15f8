"""Every target there is, by name."""

from __future__ import annotations

from fuzz import (
    c1_targets,
    config_targets,
    job_targets,
    key_targets,
    page_targets,
    request_targets,
    store_targets,
)

MODULES = (
    c1_targets,
    job_targets,
    key_targets,
    page_targets,
    config_targets,
    request_targets,
    store_targets,
)

TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
