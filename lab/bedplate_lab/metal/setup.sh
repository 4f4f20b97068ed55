# SPDX-License-Identifier: Apache-2.0
# Read by a machine from its firmware (SMBIOS, an OEM string) at its first boot, in place of the person who would sit at its
# console: name, address, administrator's key. The lab writes the variables above this text: name, address, gateway, mac,
# public_key, depot.
set -eu
printf '%s\n' "$name" >/etc/hostname
hostname "$name"
mkdir -p /etc/ssh/authorized_keys
printf '%s\n' "$public_key" >/etc/ssh/authorized_keys/bedplate
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n%s\n' "$address" "$name" "$depot" >/etc/hosts
printf 'nameserver %s\n' "$gateway" >/etc/resolv.conf
cat >/etc/systemd/network/10-mgmt.network <<EOF
[Match]
MACAddress=$mac
[Network]
Address=$address/24
Gateway=$gateway
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
EOF
