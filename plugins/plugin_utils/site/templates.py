# SPDX-License-Identifier: Apache-2.0
"""The resolver of templates and encrypted values that uses Ansible's templating."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.template import Templar

from .resolve import ResolveError
from .yamlfile import Path


class TemplarResolver:
    """Resolves what stands at a path of a host's variable; only that part of it is templated, so one error hides no other."""

    def __init__(self, variables: Callable[[str], Mapping[str, Any]], templar: Callable[[Mapping[str, Any]], Templar]) -> None:
        """Take how a host's raw variables are had, and how a templar over variables is made."""
        self._variables = variables
        self._templar = templar
        self._hosts: dict[str, tuple[Mapping[str, Any], Templar]] = {}

    def value(self, host: str, path: Path) -> Any:
        """See :class:`Resolver`."""
        try:
            if host not in self._hosts:
                variables = self._variables(host)
                self._hosts[host] = (variables, self._templar(variables))
            raw, templar = self._hosts[host]
            value: Any = raw
            for part in path:
                value = (templar.template(value) if isinstance(value, str) else value)[part]
            return templar.template(value)
        except (AnsibleError, LookupError, TypeError) as error:
            raise ResolveError(" ".join(str(error).split())) from error
