# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of the lab: an own kernel, GRUB, NVMe disks and a fabric, which hosts in containers lack."""
