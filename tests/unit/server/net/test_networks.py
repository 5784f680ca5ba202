"""What limits per address count as one address."""

from __future__ import annotations

import pytest

from jetspark.server.net.listening import network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_an_ipv6_host_is_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
