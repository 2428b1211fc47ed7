"""Validate what others run from deploy/: the chart and the compose file.

The chart as Helm renders it is held against the schemas of Kubernetes, and the compose file is read by the loader of
Compose. The three programs are built from Go modules of fixed versions into build/validators.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from scripts.release.packages import go, run
from scripts.release.versions import ROOT

PROGRAMS = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "kubectl-validate": "sigs.k8s.io/kubectl-validate@v0.0.4",
    "cmd": "github.com/compose-spec/compose-go/v2/cmd@v2.16.2",
}
KUBERNETES = ("1.25", "1.30")
"""The oldest that the chart says it is for, and the newest that the validator has schemas of."""
VALUES: tuple[tuple[str, ...], ...] = (
    (),
    (
        "secretName=hookline",
        "ingress.enabled=true",
        "ingress.host=hookline.example.com",
        "ingress.tlsSecretName=hookline-tls",
        "deliver.replicas=2",
        "collect.replicas=2",
        "settings.journal.url=kafka://kafka:9092/hookline",
        "settings.database.url=postgresql://postgres/hookline",
    ),
)
"""One pod that does everything, and everything that the chart can add to it."""


def programs(folder: Path = ROOT / "build/validators") -> Path:
    """Build what is missing, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in PROGRAMS.items():
        made_of = folder / f"{name}.made-of"
        if not made_of.exists() or made_of.read_text() != module:
            # Each by itself: together they want other versions of the libraries of Kubernetes.
            environment = {"GOBIN": str(folder), "GOFLAGS": "", "GOTOOLCHAIN": "auto"}
            run([go(), "install", "-trimpath", "-ldflags=-s -w", module], folder, environment)
            made_of.write_text(module)
    return folder


def problems(root: Path = ROOT) -> list[str]:
    """Return what is wrong with the chart and the compose file."""
    found = []
    folder = programs()
    with tempfile.TemporaryDirectory() as name:
        for kubernetes in KUBERNETES:
            for values in VALUES:
                given = [word for value in values for word in ("--set", value)]
                chart = ["template", "hookline", root / "deploy/helm/hookline", "--kube-version", kubernetes, *given]
                try:
                    (Path(name) / "chart.yaml").write_text(run([folder / "helm", *chart], root))
                    run([folder / "kubectl-validate", "--version", kubernetes, f"{name}/chart.yaml"], root)
                except RuntimeError as error:
                    found.append(
                        f"the chart on Kubernetes {kubernetes} with {', '.join(values) or 'no values'}: {error}"
                    )
    try:
        # It takes no variables from the environment, and one of ours is required.
        run([folder / "cmd", "--no-interpolation", root / "deploy/compose/compose.yaml"], root)
    except RuntimeError as error:
        found.append(f"the compose file: {error}")
    return found
