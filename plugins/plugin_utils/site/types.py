# SPDX-License-Identifier: Apache-2.0
"""The words site data is made of: names, addresses, ranges, quantities. Each refuses what it is not with its rule."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")

RFC_1123_RULE = (
    "a name of lower-case letters, digits and hyphens that begins and ends with a letter or digit, 63 characters at most "
    "between dots and 253 in all (RFC 1123)"
)


class Shape(BaseModel):
    """A mapping with known keys; types are taken as written (no text read as a number)."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, frozen=True)

    def broken(self) -> Iterator[tuple[str, str]]:
        """Yield every rule between keys that does not hold, with the key it is told at ("" for the mapping itself).

        Not a validator of pydantic's: the first of those that fails hides all others, of the mappings around it too.
        """
        yield from ()


def is_dns_label(text: str) -> bool:
    """Tell whether the text is one DNS label (RFC 1123)."""
    return _LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Tell whether the text is a DNS name (RFC 1123): labels and dots, 253 characters at most."""
    return len(text) <= 253 and all(is_dns_label(label) for label in text.split("."))


def address_or_none(text: Any) -> Address | None:
    """Return the IP address a text is, or None for any other text."""
    try:
        return ipaddress.ip_address(str(text))
    except ValueError:
        return None


def matching(pattern: str | re.Pattern[str], rule: str) -> Callable[[str], str]:
    """Return a validator that takes a text the whole of which matches the pattern, and refuses others with the rule."""

    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(rule)
        return text

    return validate


def _label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError("must be a DNS label: lower-case letters, digits and hyphens, 63 at most (RFC 1123)")
    return text


def _name(text: str) -> str:
    if address_or_none(text) is not None:
        raise ValueError("must be a DNS name, not an address")
    if not is_dns_name(text):
        raise ValueError(f"must be {RFC_1123_RULE}")
    return text


_label_value = matching(
    _LABEL_VALUE, "becomes a node label: letters, digits, '-', '_' and '.', 63 at most, letter or digit at both ends"
)


def _label_key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if not _LABEL_VALUE.fullmatch(name) or (slash and not is_dns_name(prefix)):
        raise ValueError("must be a Kubernetes label key: an optional DNS prefix and '/', then a name of 63 characters at most")
    return text


def _address(text: str) -> str:
    if text.startswith("["):
        raise ValueError("must be a bare IP address; brackets belong to URLs only")
    if "/" in text:
        raise ValueError("must be an IP address without a prefix length")
    found = address_or_none(text)
    if found is None:
        raise ValueError("must be an IP address, for example 10.0.0.11 or fd00::11")
    if special := _special(found):
        raise ValueError(f"is a {special} address, which no other host can reach")
    return str(found)


def _special(found: Address | Network) -> str:
    """Return what kind of address or range cannot be a host's in a network; "" for an ordinary one."""
    kinds = {
        "loopback": found.is_loopback,
        "link-local": found.is_link_local,
        "multicast": found.is_multicast,
        "unspecified": found.is_unspecified,
    }
    return next((kind for kind, is_one in kinds.items() if is_one), "")


def _endpoint_name(text: str) -> str:
    if text == "localhost" or text.endswith(".localhost"):
        raise ValueError("means every host itself; give the API a name of its own")
    return text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    return text


def _word(text: str) -> str:
    if not text.isprintable() or any(character.isspace() for character in text):
        raise ValueError("must be one word, without spaces")
    return text


def _range(text: str) -> str:
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("must be a range of addresses, for example 10.244.0.0/16 or fd00:10:244::/56") from None
    if special := _special(meant):
        raise ValueError(f"is a range of {special} addresses, which no host or pod can be reached at")
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise ValueError(f"has bits set behind its prefix length; the range it lies in is {meant}") from None


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ValueError("must be a URL that begins with https:// or http://; an IPv6 address in it stands in brackets")
    if parts.username or parts.password:
        raise ValueError("must not carry a user or password: it is written to files that every user of a host can read")
    return text


def _pem(text: str) -> str:
    if "-----BEGIN CERTIFICATE-----" not in text or "-----END CERTIFICATE-----" not in text:
        raise ValueError("must be a certificate in PEM form (-----BEGIN CERTIFICATE-----)")
    return text


def _signing_key(text: str) -> str:
    if "-----BEGIN PGP PUBLIC KEY BLOCK-----" not in text:
        raise ValueError("must be an ASCII-armoured public key (-----BEGIN PGP PUBLIC KEY BLOCK-----)")
    return text


_file_name = matching(r"[a-z0-9][a-z0-9-]*", "becomes part of a file name: lower-case letters, digits and hyphens")


_quantity = matching(_QUANTITY, 'must be a quantity in quotes, for example "64Gi", "3T" or "500m"')


def _path(text: str) -> str:
    if not text.startswith("/") or "/../" in f"{text}/" or "//" in text:
        raise ValueError("must be an absolute path")
    return text


_version = matching(r"[0-9]+\.[0-9]+\.[0-9]+", 'must be a full version of three numbers without a "v", for example "1.36.3"')


def share_percent(text: Any) -> int | None:
    """Return 25 for ``"25%"``; None for anything else."""
    match = re.fullmatch(r"([0-9]{1,3})%", text) if isinstance(text, str) else None
    return int(match[1]) if match else None


def _percent(text: str) -> str:
    share = share_percent(text)
    if share is None or not 1 <= share <= 100:
        raise ValueError('must be a share in quotes, "1%" to "100%"')
    return text


def _count_or_percent(value: Any) -> Any:
    share = share_percent(value)
    if share is not None and 1 <= share <= 100:
        return value
    if type(value) is int and value >= 1:
        return value
    raise ValueError('must be a count of at least 1 or a share in quotes, "1%" to "100%"')


Label = Annotated[str, AfterValidator(_label)]
DnsName = Annotated[str, AfterValidator(_name)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
IpAddress = Annotated[str, AfterValidator(_address)]
IpRange = Annotated[str, AfterValidator(_range)]
Url = Annotated[str, AfterValidator(_url)]
Pem = Annotated[str, AfterValidator(_pem)]
SigningKey = Annotated[str, AfterValidator(_signing_key)]
FileName = Annotated[str, AfterValidator(_file_name)]
Quantity = Annotated[str, AfterValidator(_quantity)]
AbsolutePath = Annotated[str, AfterValidator(_path)]
FullVersion = Annotated[str, AfterValidator(_version)]
Prose = Annotated[str, Field(min_length=1)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(_word)]
EndpointName = Annotated[str, AfterValidator(_name), AfterValidator(_endpoint_name)]
Port = Annotated[int, Field(ge=1, le=65535)]
Percent = Annotated[str, AfterValidator(_percent)]
CountOrPercent = Annotated[
    Any,
    BeforeValidator(_count_or_percent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]{1,3}%$"}]}),
]
