# SPDX-License-Identifier: Apache-2.0
"""Words that end in files, command lines and certificates of hosts: servers, registries, packages, kernel parameters."""

from __future__ import annotations

import re
from typing import Annotated, Any

from ansible_collections.bedplate.metal.plugins.module_utils.kernel_parameters import parameter_problem
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from .types import Word, address_or_none, is_dns_name, matching

_REGISTRY = re.compile(r"(\[[0-9a-fA-F:]+\]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[0-9]{1,5})?")
_IMAGE_PATH = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


def _server(text: str) -> str:
    if address_or_none(text) is None and not is_dns_name(text):
        raise ValueError("must be a host's name or its bare IP address")
    return text


def _direct(text: str) -> str:
    if "," in text or "//" in text:
        raise ValueError("must be one name, address or range; more of them are entries of their own")
    return text


def certificate_name(text: str) -> str:
    """Return a certificate's name or address as it stands in the certificate: bare, lower case, without a last dot."""
    bare = text.strip().removeprefix("[").removesuffix("]").rstrip(".").lower()
    address = address_or_none(bare)
    return str(address) if address else bare


def _certificate_name(text: str) -> str:
    name = certificate_name(text)
    if address_or_none(name) is None and not is_dns_name(name.removeprefix("*.")):
        raise ValueError("must be a DNS name or an IP address: it stands in the API server's certificate")
    return text


def _registry(text: str) -> str:
    if text != "_default" and not _REGISTRY.fullmatch(text):
        raise ValueError("must be a registry as images name it: a host with an optional port, without https:// and path")
    return text


def _image_registry(text: str) -> str:
    host, slash, path = text.partition("/")
    if not _REGISTRY.fullmatch(host) or (slash and not _IMAGE_PATH.fullmatch(path)):
        raise ValueError("must be a registry with an optional path, as images begin with: without https:// and a last slash")
    return text


_package = matching(r"[a-z0-9][a-z0-9+.-]+", "must be the name of a Debian package: lower-case letters, digits, '+', '-' and '.'")


_package_version = matching(r"[A-Za-z0-9.+~:-]+", "must be a Debian package version: letters, digits, '.', '+', '~', ':' and '-'")


_module = matching(r"[A-Za-z0-9_-]+", "must be the name of a kernel module: letters, digits, '_' and '-'")


_sysctl_key = matching(
    r"[A-Za-z0-9_-]+([./][A-Za-z0-9_:@-]+)+", "must be the name of a kernel parameter, for example net.core.somaxconn"
)


_kernel_package = matching(
    r"linux-image-[a-z0-9][a-z0-9+.-]+", "must be a package of kernels, for example linux-image-amd64 or linux-image-generic"
)


_journal_size = matching(r"[0-9]+[KMGT]", "must be a size as journald takes it, for example 500M or 2G")


def _kernel_parameter(text: str) -> str:
    if problem := parameter_problem(text):
        raise ValueError(problem)
    return text


def _limit(value: Any) -> Any:
    if type(value) is int or (isinstance(value, str) and re.fullmatch(r"unlimited|infinity|-?[0-9]+", value)):
        return value
    raise ValueError("must be a number or unlimited")


_volume_name = matching(r"[a-z][a-z0-9-]{0,19}", "becomes an array's name: lower-case letters, digits and hyphens, 20 at most")


_SYSTEM_PATHS = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr")


OF_THE_SYSTEM = "holds parts of the operating system; choose a directory of its own"


def of_the_system(path: str) -> bool:
    """Tell whether an absolute path is one of the operating system's."""
    return path.split("/")[1] in _SYSTEM_PATHS or path in ("/", "/opt", "/var", "/var/lib", "/var/log", "/var/tmp")


def _mount_point(text: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", text) or any(part in (".", "..") for part in text.split("/")):
        raise ValueError("must be an absolute path of letters, digits, '.', '_' and '-', without a last slash")
    if text == "/home" or of_the_system(text):
        raise ValueError(OF_THE_SYSTEM)
    return text


Server = Annotated[str, Field(min_length=1), AfterValidator(_server)]
Direct = Annotated[Word, AfterValidator(_direct)]
CertificateName = Annotated[str, Field(min_length=1), AfterValidator(_certificate_name)]
RegistryName = Annotated[str, AfterValidator(_registry)]
ImageRegistry = Annotated[str, AfterValidator(_image_registry)]
PackageName = Annotated[str, AfterValidator(_package)]
PackageVersion = Annotated[str, AfterValidator(_package_version)]
VolumeName = Annotated[str, AfterValidator(_volume_name)]
MountPoint = Annotated[str, AfterValidator(_mount_point)]
KernelModule = Annotated[str, AfterValidator(_module)]
KernelParameter = Annotated[str, AfterValidator(_kernel_parameter)]
KernelPackage = Annotated[str, AfterValidator(_kernel_package)]
JournalSize = Annotated[str, AfterValidator(_journal_size)]
SysctlKey = Annotated[str, AfterValidator(_sysctl_key)]
Limit = Annotated[
    Any,
    BeforeValidator(_limit),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^(unlimited|infinity|-?[0-9]+)$"}]}),
]
