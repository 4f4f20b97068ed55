# SPDX-License-Identifier: Apache-2.0
"""Tests against the real cluster of the lab; the files' numbers are their order, so that costly steps are shared."""
