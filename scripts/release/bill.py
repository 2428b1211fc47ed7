"""Write the bill of materials of the wheel as CycloneDX: what it is installed with, as locked, and what lies in it.

Runs in an environment of its own (``requirements.lock`` beside it), so what is not ours comes as JSON from
``third_party``. The same commit gives the same bytes: its number follows from the wheel, its time is the commit's.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

LICENCES = LicenseFactory()


def bill(wheel: Path, parts: dict[str, Any], moment: datetime) -> Bom:
    """Return the bill of a wheel."""
    name, version = wheel.name.split("-")[:2]
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, _sum(wheel)))
    bom.metadata.timestamp = moment
    bom.metadata.component = root = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"pkg:pypi/{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
        hashes=[_hash(_sum(wheel))],
        licenses=[LICENCES.make_from_string(parts["licence"])],
    )
    for each in (*map(_locked, parts["locked"]), *map(_vendored, parts["vendored"])):
        bom.components.add(each)
        bom.register_dependency(root, [each])
    return bom


def _locked(package: dict[str, Any]) -> Component:
    purl = PackageURL("pypi", None, package["name"], package["version"])
    # A version has a file for each platform: the sums are of what is downloaded, not of the package as such.
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(f"https://pypi.org/project/{package['name']}/{package['version']}/#files"),
        hashes=[_hash(each) for each in package["hashes"]],
    )
    return Component(
        name=package["name"],
        version=package["version"],
        bom_ref=str(purl),
        purl=purl,
        scope=ComponentScope.REQUIRED if package["when"] == "always" else ComponentScope.OPTIONAL,
        licenses=[LICENCES.make_from_string(package["licence"])],
        external_references=[files],
    )


def _vendored(package: dict[str, Any]) -> Component:
    group, _, name = package["name"].rpartition("/")
    purl = PackageURL("npm", group or None, name, package["version"])
    return Component(
        name=name,
        group=group or None,
        version=package["version"],
        bom_ref=str(purl),
        purl=purl,
        licenses=[LICENCES.make_from_string(package["licence"])],
        components=[
            Component(
                name=f"{package['folder']}/{file}",
                type=ComponentType.FILE,
                bom_ref=f"{purl}#{file}",
                hashes=[_hash(digest)],
            )
            for file, digest in package["sums"].items()
        ],
    )


def _hash(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(wheel: Path, seconds: int, target: Path) -> int:
    """Write the bill for a wheel and check it against the schema; return the exit code."""
    text = JsonV1Dot6(bill(wheel, json.load(sys.stdin), datetime.fromtimestamp(seconds, UTC))).output_as_string(
        indent=2
    )
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(f"bill: {fault}", file=sys.stderr)
        return 1
    target.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
