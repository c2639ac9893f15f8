"""The systemd unit and the container file against the code that they start."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from torchzk.errors import ConfigError, KeyFileError, ResourceError
from torchzk.serve import main
from torchzk.serving.serve_config import LimitConfig, load_serve_config, parse_address

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "torchzk.service"
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text()
SERVED = ROOT / "configs" / "serve" / "serve32g.yaml"
PAGE = (ROOT / "docs" / "operate.md").read_text()


def unit() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found[name].append(value)
    return found


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    # with commands that are there: whether they are is the machine's affair
    text = UNIT.read_text().replace("/opt/torchzk/bin/python", "/bin/true")
    copy = tmp_path / "torchzk.service"
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60
    )
    own = [line for line in done.stderr.splitlines() if copy.name in line]
    assert own == []
    copy.write_text(text + "\nNoSuchThing=yes\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60
    )
    # old ones have no manager to ask in a container, and say nothing of any unit
    if "NoSuchThing" not in done.stderr:
        pytest.skip("systemd-analyze looks at no unit here")


def test_the_unit_stops_as_the_service_does() -> None:
    said = unit()
    assert (said["KillSignal"], said["KillMode"]) == (["SIGTERM"], ["mixed"])
    for config in (LimitConfig(), load_serve_config(SERVED).limits):
        assert int(said["TimeoutStopSec"][0]) >= config.drain + 30
    codes = {int(code) for code in said["RestartPreventExitStatus"][0].split()}
    assert codes == {ConfigError.exit_code, KeyFileError.exit_code}
    assert ResourceError.exit_code not in codes and said["Restart"] == ["on-failure"]
    assert int(said["LimitNOFILE"][0]) > 2 * LimitConfig().calls
    assert int(said["TasksMax"][0]) > LimitConfig().calls


def test_the_unit_may_write_where_its_config_does() -> None:
    said, config = unit(), load_serve_config(SERVED)
    assert config.data == Path("/var/lib") / said["StateDirectory"][0]
    assert config.runs and config.runs.is_relative_to(f"/var/log/{said['LogsDirectory'][0]}")
    socket = parse_address(config.listen).socket
    assert socket and socket.parent == Path("/run") / said["RuntimeDirectory"][0]
    # a group that may connect must get as far as the socket
    assert config.socket_access == "group" and said["RuntimeDirectoryMode"] == ["0750"]
    assert said["StateDirectoryMode"] == ["0700"] and said["ProtectSystem"] == ["strict"]
    cache = f"/var/cache/{said['CacheDirectory'][0]}"
    assert said["Environment"] == [f"HOME={cache}"] and said["WorkingDirectory"] == [cache]
    # the network's keys, below what the unit gets a private one of
    assert said["BindReadOnlyPaths"] == [f"-{config.parameter_folder}"]
    assert said["PrivateTmp"] == ["yes"]


def test_the_unit_has_what_a_gpu_needs_and_little_else() -> None:
    said = unit()
    assert said["DeviceAllow"] == ["char-nvidia* rw"] and said["DevicePolicy"] == ["closed"]
    # which would take the devices away, and the driver's code
    assert not said.keys() & {"PrivateDevices", "MemoryDenyWriteExecute", "ProcSubset"}
    assert said["LimitMEMLOCK"] == ["infinity"]
    assert said["CapabilityBoundingSet"] == [""] and said["NoNewPrivileges"] == ["yes"]
    assert said["User"] == ["torchzk"] and said["SystemCallFilter"] == ["@system-service"]


def test_the_units_commands_are_the_services(capsys: pytest.CaptureFixture[str]) -> None:
    said = unit()
    (before,), (start,) = said["ExecStartPre"], said["ExecStart"]
    assert before == f"{start} --check-config"
    assert start.split()[:3] == ["/opt/torchzk/bin/python", "-m", "torchzk.serve"]
    arguments = start.split()[3:]
    assert arguments == ["--config", "/etc/torchzk/serve.yaml"]
    # which the page has copied there
    assert "configs/serve/serve32g.yaml /etc/torchzk/serve.yaml" in PAGE
    assert main(["--config", str(SERVED), "--check-config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["listen"].startswith("unix://")


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINER, flags=re.M))
    lines = [line for line in joined.splitlines() if line]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_container_is_of_a_cuda_base_and_not_root() -> None:
    said = instructions()
    bases = [value for name, value in said if name == "FROM"]
    assert bases == ["${BASE} AS build", "${BASE}"]
    (base,) = [value for name, value in said if name == "ARG"]
    assert re.fullmatch(r"BASE=docker\.io/nvidia/cuda:\d+\.\d+\.\d+-base-ubuntu24\.04", base)
    last = max(k for k, (name, _) in enumerate(said) if name == "FROM")
    final = said[last:]
    (user,) = [value for name, value in final if name == "USER"]
    assert user == "9820:9820"
    after = [name for name, _ in final[final.index(("USER", user)) :]]
    assert "RUN" not in after and "COPY" not in after
    assert ("STOPSIGNAL", "SIGTERM") in final


def test_the_container_starts_what_there_is() -> None:
    said = dict(instructions())
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = json.loads(said["ENTRYPOINT"])
    assert entry in scripts
    flag, config = json.loads(said["CMD"])
    assert flag == "--config" and (ROOT / "configs" / config).is_file()
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            assert all((ROOT / path).exists() for path in value.split()[:-1])
    served = load_serve_config(ROOT / "configs" / config)
    volumes = json.loads(said["VOLUME"])
    socket = parse_address(served.listen).socket
    assert str(served.data) in volumes and socket and str(socket.parent) in volumes
    # all that is written to belongs to the user
    assert served.runs and served.runs.parent == Path("/var/log/torchzk")
    made = " ".join(re.findall(r"install -d -o torchzk [^&]*", CONTAINER)).split()
    assert {"/var/log/torchzk", *volumes} <= set(made)


def test_the_containers_health_check_asks_where_the_service_answers() -> None:
    (check,) = [value for name, value in instructions() if name == "HEALTHCHECK"]
    command = json.loads(check.partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "health check", "exec")
    served = load_serve_config(SERVED)
    assert f"http://{served.status_listen}/readyz" in command[2]


def test_the_page_stops_a_container_no_sooner_than_the_unit() -> None:
    (seconds,) = re.findall(r"--stop-timeout (\d+)", PAGE)
    assert [seconds] == unit()["TimeoutStopSec"]
    assert "podman run --init" in PAGE
