"""`tiercast keys`: what it writes, and what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from tiercast_controller.base.tls import KeyRole, certificate_file

from ..checkout import ROOT
from ..patience import PATIENCE_S


def made(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(ROOT / "tiercast"), "keys", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)


def test_only_the_owner_can_use_the_keys(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert made(folder).returncode == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert modes == {
        "ca.pem": 0o644,
        **{f"{role}.pem": 0o644 for role in KeyRole},
        **{f"{role}.key": 0o600 for role in KeyRole},
    }


def test_the_certificates_are_those_of_the_authority_and_name_the_roles(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert made(folder, "--host", "lab.example", "--host", "192.0.2.7").returncode == 0
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", folder / "ca.pem"]
    for role in KeyRole:
        file = folder / certificate_file(role)
        purposes = ["sslclient"] if role is KeyRole.OBSERVER else ["sslclient", "sslserver"]
        for purpose in purposes:
            subprocess.run([*verify, "-purpose", purpose, file], check=True, capture_output=True)
        names = x509.load_pem_x509_certificate(file.read_bytes()).extensions
        shown = names.get_extension_for_class(x509.SubjectAlternativeName).value
        dns = shown.get_values_for_type(x509.DNSName)
        assert dns[0] == f"{role}.tiercast.internal"
        # No program takes it for another role.
        assert sum(name.endswith("tiercast.internal") for name in dns) == 1
        assert ("lab.example" in dns) == (role is not KeyRole.OBSERVER)
    done = subprocess.run(
        [*verify, "-purpose", "sslserver", folder / "observer.pem"], capture_output=True
    )
    assert done.returncode != 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    assert made(tmp_path / "lab").returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "lab").iterdir()}
    again = made(tmp_path / "lab")
    assert again.returncode == 2 and "already exists; valid: a new folder" in again.stderr
    assert before == {path: path.read_bytes() for path in (tmp_path / "lab").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no/such/folder",), "no/such/folder: No such file or directory"),
        (("lab", "--host", "a b"), "--host a b: not a name or address"),
        (("lab", "--host", "controller.tiercast.internal"), "none below tiercast.internal"),
        (("lab", "--host", "controller.tiercast.internal."), "none below tiercast.internal"),
        (("lab", "--days", "0"), "0"),
    ],
)
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = made(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "lab").exists()
