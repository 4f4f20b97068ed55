# SPDX-License-Identifier: Apache-2.0
"""Tests that need the second machine alone; they run beside those of the first."""
