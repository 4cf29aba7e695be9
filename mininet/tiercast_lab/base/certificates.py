"""Makes the keys of a lab: an authority, and a certificate for each role (docs/security.md)."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tiercast_controller.base.tls import CA, DOMAIN, KeyRole, certificate_file, key_file

from tiercast_lab.base.errors import InputError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile("[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_EARLIER = datetime.timedelta(days=1)  # for machines whose clocks are behind


def make_keys(folder: Path, hosts: Sequence[str], days: int) -> None:
    """Makes a new folder with the authority's certificate, and certificate and key of each role.
    Servers' are also valid for `hosts`, which browsers and Prometheus look at. The authority's key
    is not kept, so nobody can add a certificate. Raises InputError if the folder is there or cannot
    be made, or a host is no name."""
    names = [_general_name(host) for host in (*LOOPBACK, *hosts)]
    files = list(_files(names, days))
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(f"{folder} already exists; valid: a new folder") from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None
    try:
        for name, content, mode in files:
            with os.fdopen(
                os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
            ) as file:
                file.write(content)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{folder}: {error.strerror}") from None


def names_in(certificate: Path) -> list[str]:
    """The host names for which a certificate is valid; of `tiercast keys`, also its role's."""
    shown = x509.load_pem_x509_certificate(certificate.read_bytes()).extensions
    names = shown.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


def _files(names: list[x509.GeneralName], days: int) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and mode of each."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tiercast lab")])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    yield CA, authority.public_bytes(serialization.Encoding.PEM), 0o644
    for role in KeyRole:
        key = ec.generate_private_key(ec.SECP256R1())
        serves = role is not KeyRole.OBSERVER
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        shown: list[x509.GeneralName] = [x509.DNSName(role.name_in_certificate)]
        if serves:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            shown += names
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
                x509.NameAttribute(NameOID.COMMON_NAME, f"tiercast {role}"),
            ]
        )
        certificate = (
            _builder(subject, authority_name, key.public_key(), until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(shown), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
            .sign(authority_key, hashes.SHA256())
        )
        yield certificate_file(role), certificate.public_bytes(serialization.Encoding.PEM), 0o644
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        yield key_file(role), secret, 0o600


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime.now(datetime.UTC) - _EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        # A name of the domain would be a role, also with the dot of the root, which TLS ignores.
        if not _HOST.fullmatch(host) or host.lower().rstrip(".").endswith(DOMAIN):
            raise ValueError
        return x509.DNSName(host)
    except ValueError:
        raise InputError(
            f"--host {host}: not a name or address; valid: such as lab.example, 192.0.2.7, none "
            f"below {DOMAIN}"
        ) from None
