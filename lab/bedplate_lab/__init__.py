# SPDX-License-Identifier: Apache-2.0
"""The lab: hosts in containers, a depot, and the components in it built from pinned Go modules."""
