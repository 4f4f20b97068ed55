# SPDX-License-Identifier: Apache-2.0
"""The lab's own certificate authority and the certificates it gives to the depot."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bedplate_lab.errors import LabError
from bedplate_lab.paths import state

AUTHORITY_DAYS = 3650
LEAF_DAYS = 397
RENEW_DAYS = 30
"""A certificate with less than this left is made again."""
CLOCK_SKEW = timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """The lab's CA: `certificate` is its PEM file, `key` its private key's PEM file (mode 0600)."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> str:
        """The CA's certificate as PEM text, for those who must trust it."""
        return self.certificate.read_text()


def ensure() -> Authority:
    """The lab's CA under `.lab/ca`, made when missing or about to expire. Raises LabError when its files are unreadable."""
    authority = Authority(state("ca", "ca.crt"), state("ca", "ca.key"))
    if not (authority.key.is_file() and _lasts(authority.certificate)):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Bedplate lab CA")])
        builder = (
            _builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        _write(authority.key, _key_pem(key), 0o600)
        _write(authority.certificate, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), 0o644)
    return authority


def leaf(authority: Authority, directory: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """A server certificate for DNS names and IP addresses in `directory`: the files of certificate and key.

    The first name is the subject. An existing one is kept while it was signed by this CA, covers the names and lasts.
    """
    certificate, key_file = directory / "tls.crt", directory / "tls.key"
    issuer = _load(authority.certificate)
    if not (key_file.is_file() and _lasts(certificate) and _covers(_load(certificate), issuer, names)):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        builder = (
            _builder(subject, issuer.subject, key.public_key(), LEAF_DAYS)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        )
        signer = serialization.load_pem_private_key(authority.key.read_bytes(), None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise LabError(
                f"{authority.key} is not an elliptic-curve key; remove {authority.key.parent} to make the lab's CA again"
            )
        _write(key_file, _key_pem(key), 0o600)
        _write(certificate, builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), 0o644)
    return certificate, key_file


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write through a temporary file that never has wider permissions than `mode`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as handle:
        handle.write(content)
    temporary.rename(path)


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise LabError(f"{path} is not a certificate ({error}); remove {path.parent} to make it again") from error


def _lasts(path: Path) -> bool:
    return path.is_file() and _load(path).not_valid_after_utc > datetime.now(UTC) + timedelta(days=RENEW_DAYS)


def _covers(certificate: x509.Certificate, issuer: x509.Certificate, names: Sequence[str]) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # an invalid signature or another issuer: both mean that it must be made again
        return False
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return list(extension.value) == [_general_name(name) for name in names]
