# SPDX-License-Identifier: Apache-2.0
"""Roles on the metal lab's virtual machines: real kernels, real reboots, real disks."""
