"""deploy/compose against the repository and the settings."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Any

from hookline.api.gates import HostNames
from hookline.settings import Settings, load
from tests.deploy.container import instructions
from tests.deploy.files import DEPLOY, ROOT, read_yaml

FOLDER = DEPLOY / "compose"
COMPOSE = read_yaml(FOLDER / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def with_defaults(text: str) -> str:
    """A value where nothing is set in the environment."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def settings_in_the_container() -> Settings:
    """What Hookline reads from the environment of image and service."""
    environment = {key: with_defaults(value) for key, value in SERVICES["hookline"]["environment"].items()}
    image = dict(re.findall(r"(HOOKLINE_\w+)=(\S+)", "\n".join(instructions("ENV"))))
    return load(Path(os.devnull), environment={**image, **environment})[0]


def test_mounted_files_exist_and_volumes_are_declared() -> None:
    """Nothing is mounted that is not there: an engine would make an empty folder of it."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, target, *mode = volume.split(":")
            assert target.startswith("/"), (name, volume)
            if source.startswith("."):
                assert (FOLDER / source).is_file(), (name, volume)
                assert mode == ["ro"], (name, volume)
            else:
                assert source in COMPOSE["volumes"], (name, volume)


def test_images_are_pinned_by_version() -> None:
    """No image is taken as it happens to be; the one that is built has the context that the Containerfile needs."""
    for service in SERVICES.values():
        assert re.fullmatch(r"[a-z/]+:v?\d+(?:\.\d+){1,2}", service["image"]), service["image"]
    build = SERVICES["hookline"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_ports_are_on_loopback_only() -> None:
    """Nothing is open to the network by starting it; broker and database have no port at all."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not any("ports" in SERVICES[name] for name in ("kafka", "postgres"))


def test_kafka_and_postgresql_are_started_by_their_profiles_only() -> None:
    """Without them there is no broker and no server: journal and databases are in the data folder."""
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if service.get("profiles")}
    assert profiles == {"kafka": ["kafka"], "postgres": ["postgres"]}
    assert settings_in_the_container().journal.url == "local"


def test_the_container_can_do_nothing_but_write_its_volume() -> None:
    """Read-only root, no capability, and the data folder on the volume."""
    service = SERVICES["hookline"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert f"hookline-data:{settings_in_the_container().data_dir}" in service["volumes"]


def test_prometheus_reaches_the_control_port_by_an_address_that_it_answers_to() -> None:
    """The scraped address is the one the service has, and no 421 comes of it."""
    (job,) = read_yaml(FOLDER / "prometheus.yml")["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    settings = settings_in_the_container()
    assert host == SERVICES["hookline"]["networks"]["default"]["ipv4_address"]
    (pool,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert ipaddress.ip_address(host) in ipaddress.ip_network(pool["subnet"])
    assert settings.control.listen.endswith(f":{port}")

    assert HostNames(settings).allows(target)
    assert not HostNames(settings).allows(f"hookline:{port}")


def test_grafana_finds_its_data_and_the_dashboard() -> None:
    """The source of data is the service beside it, and the dashboard lies where it looks for dashboards."""
    (source,) = read_yaml(FOLDER / "grafana" / "datasource.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read_yaml(FOLDER / "grafana" / "dashboards.yaml")["providers"]
    targets = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/hookline.json" in targets
