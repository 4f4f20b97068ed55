# SPDX-License-Identifier: Apache-2.0
"""What a host sees of the network: its addresses, other machines' ports, and the time they tell.

A second narrow door beside :class:`~.host.Host`, so that tests can put a recorded network behind it.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

CONNECT_TIMEOUT_SECONDS = 4.0
SNTP_TIMEOUT_SECONDS = 2.0
SNTP_PORT = 123
NTP_EPOCH_SECONDS = 2208988800
"""Seconds from 1900 (NTP, RFC 5905) to 1970 (Unix)."""


@dataclass(frozen=True)
class Address:
    """One address of an interface, bare (no prefix length, no zone)."""

    interface: str
    address: str
    prefix: int


class Network(Protocol):
    """What a component may ask of the network; nothing here raises for a peer's failure."""

    def addresses(self) -> list[Address]:
        """Return the global, settled addresses of all interfaces but loopback; no temporary or deprecated ones."""

    def offsets(self, servers: list[str]) -> dict[str, float | str]:
        """Return, per SNTP server (``host[:port]``), local minus server time in seconds, or the reason of its failure."""

    def unreachable(self, uris: list[str]) -> dict[str, str]:
        """Return the reason for each URI whose host and port do not accept a TCP connection."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def monotonic(self) -> float:
        """Return a clock for measuring waits, in seconds."""


def same_address(left: str, right: str | None) -> bool:
    """Compare two addresses by value: IPv6 has many spellings. Names are compared as texts."""
    try:
        return right is not None and ipaddress.ip_address(left) == ipaddress.ip_address(right)
    except ValueError:
        return left == right


def split_host_port(text: str, default_port: int) -> tuple[str, int]:
    """Split ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address into host (no brackets) and port."""
    try:
        return str(ipaddress.ip_address(text)), default_port
    except ValueError:
        parts = urlsplit(f"//{text}")
        return parts.hostname or text, parts.port or default_port


def uri_endpoint(uri: str) -> tuple[str, int]:
    """Return the host (no brackets) and port of a URI; https is assumed where no scheme is given."""
    parts = urlsplit(uri if "://" in uri else f"https://{uri}")
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


class LocalNetwork:
    """The network as seen from the machine this code runs on."""

    def addresses(self) -> list[Address]:
        """See :meth:`Network.addresses`."""
        return parse_addresses(_netlink_addresses())

    def offsets(self, servers: list[str]) -> dict[str, float | str]:
        """See :meth:`Network.offsets`. All servers are asked at once."""
        if not servers:
            return {}
        with ThreadPoolExecutor(max_workers=min(8, len(servers))) as pool:
            return dict(zip(servers, pool.map(_sntp_offset, servers)))

    def unreachable(self, uris: list[str]) -> dict[str, str]:
        """See :meth:`Network.unreachable`. All are tried at once."""
        if not uris:
            return {}
        with ThreadPoolExecutor(max_workers=min(8, len(uris))) as pool:
            reasons = dict(zip(uris, pool.map(_connect, uris)))
        return {uri: reason for uri, reason in reasons.items() if reason}

    def sleep(self, seconds: float) -> None:
        """See :meth:`Network.sleep`."""
        time.sleep(seconds)

    def monotonic(self) -> float:
        """See :meth:`Network.monotonic`."""
        return time.monotonic()


def _connect(uri: str) -> str:
    host, port = uri_endpoint(uri)
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        return f"{host} port {port}: {error.strerror or error}"
    return ""


def _sntp_offset(server: str) -> float | str:
    host, port = split_host_port(server, SNTP_PORT)
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as channel:
            channel.settimeout(SNTP_TIMEOUT_SECONDS)
            channel.connect(address)
            sent = time.time()
            channel.send(sntp_request(sent))
            answer = channel.recv(512)
            return sntp_offset(answer, sent, time.time())
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)


def sntp_request(now: float) -> bytes:
    """Return an SNTP client packet (RFC 4330): version 4, mode 3, the transmit time given in Unix seconds."""
    return struct.pack("!B39x", 0x23) + _ntp_time(now)


def sntp_offset(answer: bytes, sent: float, received: float) -> float:
    """Return local minus server time in seconds from a server's packet; raise ValueError for an unusable one.

    sent, received: local Unix times around the exchange.
    """
    if len(answer) < 48:
        raise ValueError(f"an answer of {len(answer)} bytes is not SNTP")
    leap, mode, stratum = answer[0] >> 6, answer[0] & 7, answer[1]
    if mode not in (4, 5):
        raise ValueError(f"an answer of mode {mode} is not a server's")
    if leap == 3 or stratum == 0:
        raise ValueError("the server says that it is not synchronized")
    server_received, server_sent = _unix_time(answer[32:40]), _unix_time(answer[40:48])
    return ((sent - server_received) + (received - server_sent)) / 2


def _ntp_time(unix: float) -> bytes:
    seconds = int(unix)
    return struct.pack("!II", (seconds + NTP_EPOCH_SECONDS) & 0xFFFFFFFF, int((unix - seconds) * 2**32))


def _unix_time(stamp: bytes) -> float:
    seconds, fraction = struct.unpack("!II", stamp)
    era = 0 if seconds & 0x80000000 else 2**32  # RFC 4330, section 3: the most significant bit is 0 after 2036
    return float(seconds + era - NTP_EPOCH_SECONDS) + float(fraction) / 2**32


# Numbers of rtnetlink(7), linux/rtnetlink.h, linux/if_addr.h
_RTM_GETADDR, _RTM_NEWADDR, _NLMSG_DONE, _DUMP_REQUEST = 22, 20, 3, 0x301
_IFA_ADDRESS, _IFA_LOCAL, _SCOPE_GLOBAL = 1, 2, 0
_IFA_F_TEMPORARY, _IFA_F_DADFAILED, _IFA_F_DEPRECATED, _IFA_F_TENTATIVE = 0x01, 0x08, 0x20, 0x40


def _netlink_addresses() -> list[bytes]:
    """Return the RTM_NEWADDR payloads of a dump of all addresses (no need for iproute2 on the host)."""
    messages: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:
        channel.settimeout(5)
        channel.send(struct.pack("=LHHLLBBBBL", 24, _RTM_GETADDR, _DUMP_REQUEST, 1, 0, 0, 0, 0, 0, 0))
        while True:
            data = channel.recv(1 << 16)
            while len(data) >= 16:
                length, kind = struct.unpack("=LH", data[:6])
                if kind == _NLMSG_DONE or length < 16:
                    return messages
                if kind == _RTM_NEWADDR:
                    messages.append(data[16:length])
                data = data[(length + 3) & ~3 :]


def parse_addresses(messages: list[bytes]) -> list[Address]:
    """Parse RTM_NEWADDR payloads (struct ifaddrmsg and attributes)."""
    found: list[Address] = []
    for message in messages:
        family, prefix, flags, scope, index = struct.unpack("=BBBBL", message[:8])
        attributes, rest = {}, message[8:]
        while len(rest) >= 4:
            length, kind = struct.unpack("=HH", rest[:4])
            if length < 4:
                break
            attributes[kind] = rest[4:length]
            rest = rest[(length + 3) & ~3 :]
        raw = attributes.get(_IFA_LOCAL, attributes.get(_IFA_ADDRESS))  # on point-to-point links ADDRESS is the peer's
        unsettled = _IFA_F_TEMPORARY | _IFA_F_DADFAILED | _IFA_F_DEPRECATED | _IFA_F_TENTATIVE
        if raw is None or scope != _SCOPE_GLOBAL or (family == socket.AF_INET6 and flags & unsettled):
            continue
        address = ipaddress.ip_address(raw)
        if not address.is_loopback:
            found.append(Address(_interface_name(index), str(address), prefix))
    return found


def _interface_name(index: int) -> str:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f"interface {index}"
