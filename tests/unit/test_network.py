# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.network import (
    LocalNetwork,
    parse_addresses,
    sntp_offset,
    sntp_request,
    split_host_port,
    uri_endpoint,
)


@contextmanager
def time_server(shift_seconds: float, stratum: int = 2, leap: int = 0) -> Iterator[str]:
    """Serve SNTP on a free port with a clock that differs from this machine's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.bind(("127.0.0.1", 0))

        def serve() -> None:
            try:
                while True:
                    request, peer = channel.recvfrom(512)
                    now = sntp_request(time.time() + shift_seconds)[40:48]
                    head = struct.pack("!BB22x", leap << 6 | 0x24, stratum)
                    channel.sendto(head + request[40:48] + now + now, peer)
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{channel.getsockname()[1]}"


def test_b15_the_offset_from_a_shifted_time_server() -> None:
    with time_server(3600) as ahead, time_server(-7.5) as behind:
        offsets = LocalNetwork().offsets([ahead, behind])
    assert offsets[ahead] == pytest.approx(-3600, abs=0.5)
    assert offsets[behind] == pytest.approx(7.5, abs=0.5)


def test_a_server_that_is_not_synchronized_or_not_there_gives_its_reason() -> None:
    with time_server(0, stratum=0) as unsynchronized, time_server(0, leap=3) as alarmed:
        offsets = LocalNetwork().offsets([unsynchronized, alarmed, "127.0.0.1:9"])
    assert "not synchronized" in str(offsets[unsynchronized]) and "not synchronized" in str(offsets[alarmed])
    assert isinstance(offsets["127.0.0.1:9"], str)


def test_answers_that_are_no_time() -> None:
    with pytest.raises(ValueError, match="5 bytes"):
        sntp_offset(b"12345", 0, 0)
    with pytest.raises(ValueError, match="mode 3"):
        sntp_offset(sntp_request(0), 0, 0)


def test_reachability_names_host_port_and_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reasons = LocalNetwork().unreachable([f"http://127.0.0.1:{port}/apt", "http://127.0.0.1:9"])
    assert reasons == {"http://127.0.0.1:9": "127.0.0.1 port 9: Connection refused"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("time.example", ("time.example", 123)),
        ("time.example:1123", ("time.example", 1123)),
        ("fd00::1", ("fd00::1", 123)),
        ("[fd00::1]:1123", ("fd00::1", 1123)),
        ("10.0.0.1", ("10.0.0.1", 123)),
    ],
)
def test_e39_hosts_and_ports(text: str, answer: tuple[str, int]) -> None:
    assert split_host_port(text, 123) == answer


def test_e39_uris() -> None:
    assert uri_endpoint("https://[fd00::1]:5000/v2") == ("fd00::1", 5000)
    assert uri_endpoint("http://depot") == ("depot", 80)
    assert uri_endpoint("registry.example") == ("registry.example", 443)


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data


def message(family: int, prefix: int, flags: int, scope: int, *attributes: bytes) -> bytes:
    return struct.pack("=BBBBL", family, prefix, flags, scope, 999) + b"".join(attributes)


def test_only_global_settled_addresses_count_and_the_local_end_of_a_tunnel() -> None:
    ipv4 = socket.inet_pton(socket.AF_INET, "10.0.0.11")
    peer = socket.inet_pton(socket.AF_INET, "10.0.0.99")
    ipv6 = socket.inet_pton(socket.AF_INET6, "fd00::b")
    found = parse_addresses(
        [
            message(socket.AF_INET, 24, 0x80, 0, attribute(1, peer), attribute(2, ipv4)),
            message(socket.AF_INET, 8, 0x80, 254, attribute(2, socket.inet_aton("127.0.0.1"))),
            message(socket.AF_INET6, 64, 0x80, 0, attribute(1, ipv6)),
            message(socket.AF_INET6, 64, 0x01, 0, attribute(1, socket.inet_pton(socket.AF_INET6, "fd00::1234"))),
            message(socket.AF_INET6, 64, 0x80, 253, attribute(1, socket.inet_pton(socket.AF_INET6, "fe80::1"))),
        ]
    )
    assert [(a.address, a.prefix) for a in found] == [("10.0.0.11", 24), ("fd00::b", 64)]


def test_this_machine_answers() -> None:
    assert all(a.interface != "lo" for a in LocalNetwork().addresses())
