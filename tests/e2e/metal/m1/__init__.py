# SPDX-License-Identifier: Apache-2.0
"""Tests that need the first machine alone; they run beside those of the second."""
