"""Every target there is, by name."""

from __future__ import annotations

from fuzz import c1_targets, config_targets, job_targets, key_targets, service_targets

TARGETS = {
    target.name: target
    for module in (c1_targets, job_targets, key_targets, config_targets, service_targets)
    for target in module.TARGETS
}
