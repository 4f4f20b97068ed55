# SPDX-License-Identifier: Apache-2.0
"""Tests on hosts of their own, beside the lab's cluster."""
