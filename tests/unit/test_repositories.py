# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.proxy import APT_PROXY, PROFILE, Proxy, exempt
from ansible_collections.bedplate.metal.plugins.module_utils.repositories import Repositories, RepositoriesDesired
from ansible_collections.bedplate.metal.plugins.module_utils.repositories_files import (
    APT_AUTHORITIES,
    BUNDLE,
    AptSource,
    check_source,
    list_prefixes,
    source_text,
)
from fixtures_host import CA, KEY, OTHER_CA, debian, repositories_desired, repositories_host, repositories_host_with_tool

from recorded_host import RecordedHost

SOURCE = AptSource("kubernetes", ("http://depot.example/apt",), ("stable",), ("main",), KEY)
PLAIN = RepositoriesDesired(apt=(SOURCE,), lock_timeout_seconds=0)


def run(host: RecordedHost, desired: RepositoriesDesired, check: bool = False) -> Outcome:
    return execute(Repositories(), host, desired, Policy(check=check))


def updates(host: RecordedHost) -> int:
    return len([c for c in host.ran("apt-get") if "update" in c])


class TestSources:
    def test_a_source_its_key_and_one_refresh(self) -> None:
        host = debian()
        run(host, PLAIN)
        assert host.files["/etc/apt/sources.list.d/bedplate-kubernetes.sources"] == (
            "Types: deb\nURIs: http://depot.example/apt\nSuites: stable\nComponents: main\n"
            "Signed-By: /etc/apt/keyrings/bedplate-kubernetes.asc\n"
        )
        assert host.files["/etc/apt/keyrings/bedplate-kubernetes.asc"] == KEY
        assert updates(host) == 1
        assert not run(host, PLAIN).changed and updates(host) == 1

    def test_a_changed_key_or_lost_lists_refresh_again(self) -> None:
        host = debian()
        run(host, PLAIN)
        run(host, replace(PLAIN, apt=(replace(SOURCE, signing_key=KEY.replace("mDMEZ", "mDMEY")),)))
        assert updates(host) == 2
        host.remove("/var/lib/apt/lists")
        run(host, replace(PLAIN, apt=(replace(SOURCE, signing_key=KEY.replace("mDMEZ", "mDMEY")),)))
        assert updates(host) == 3

    def test_exclusive_puts_others_aside_and_back(self) -> None:
        host = repositories_host()
        foreign = {p: t for p, t in host.files.items() if p.startswith("/etc/apt/sources.list") and "bedplate" not in p}
        run(host, repositories_desired())
        assert not set(foreign) & set(host.files)
        assert "/etc/apt/sources.list.d/bedplate-gone.sources" not in host.files
        run(host, replace(repositories_desired(), exclusive=False))
        assert {p: host.files[p] for p in foreign} == foreign

    def test_check_mode_predicts_the_run_and_changes_nothing(self) -> None:
        host = repositories_host()
        before = host.snapshot()
        predicted = run(host, repositories_desired(), check=True)
        assert host.snapshot() == before and not updates(host)
        assert [c.public() for c in run(host, repositories_desired()).changes] == [c.public() for c in predicted.changes]

    def test_flat_repositories_have_no_components(self) -> None:
        flat = AptSource("k", ("https://pkgs.k8s.io/core:/stable:/v1.36/deb/",), ("/",), (), "/usr/share/keyrings/k.gpg")
        assert "Components" not in source_text(flat) and "Signed-By: /usr/share/keyrings/k.gpg" in source_text(flat)
        check_source(flat)

    @pytest.mark.parametrize(
        ("uri", "suite", "name"),
        [
            ("http://mirror.example.org/debian", "bookworm", "mirror.example.org_debian_dists_bookworm_"),
            ("http://user:pw@10.0.0.1:8080/a_b/", "s", "10.0.0.1:8080_a%5fb_dists_s_"),
            ("https://[fd00::1]:8443/apt", "s", "%5bfd00::1%5d:8443_apt_dists_s_"),
        ],
    )
    def test_list_files_are_named_as_apt_names_them(self, uri: str, suite: str, name: str) -> None:
        assert list_prefixes(AptSource("x", (uri,), (suite,), ("main",))) == [f"/var/lib/apt/lists/{name}"]

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            (replace(SOURCE, name="A b"), "other characters"),
            (replace(SOURCE, uris=()), "no uris"),
            (replace(SOURCE, suites=("x/",)), "flat"),
            (replace(SOURCE, components=()), "no components"),
            (replace(SOURCE, signing_key="ABCD"), "neither an armoured public key nor a path"),
        ],
    )
    def test_sources_that_cannot_work_are_refused(self, source: AptSource, words: str) -> None:
        with pytest.raises(BedplateError, match=words):
            check_source(source)


class TestRefreshFailures:
    def test_a_bad_signature_names_the_repository_and_the_next_step(self) -> None:
        host = debian()
        host.update_error = (
            "W: GPG error: http://depot.example/apt stable InRelease: The following signatures couldn't be verified "
            "because the public key is not available: NO_PUBKEY 0123456789ABCDEF\n"
            "E: The repository 'http://depot.example/apt stable InRelease' is not signed.\n"
        )
        with pytest.raises(BedplateError) as error:
            run(host, PLAIN)
        assert str(error.value).startswith("http://depot.example/apt: repository signature: found GPG error")
        assert "NO_PUBKEY 0123456789ABCDEF" in str(error.value) and "Next: correct signing_key" in str(error.value)
        host.update_error = ""
        assert run(host, PLAIN).changed and not run(host, PLAIN).changed

    def test_an_unreachable_repository_names_its_address(self) -> None:
        host = debian()
        host.update_error = (
            "E: Failed to fetch http://depot.example/apt/dists/stable/InRelease  Could not connect to depot.example:80\n"
        )
        with pytest.raises(BedplateError, match=r"http://depot\.example/apt: repository: found .*Could not connect"):
            run(host, PLAIN)

    def test_failures_of_other_sources_do_not_stop(self) -> None:
        host = debian()
        original = host.handlers["apt-get"]

        def half(on: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
            original(on, argv, stdin)
            return Result(
                100, "", "E: Failed to fetch http://other.example/dists/x/InRelease  Could not resolve 'other.example'\n"
            )

        host.on("apt-get", half)
        assert run(host, PLAIN).changed

    def test_a_full_disk_says_so(self) -> None:
        host = debian()
        host.update_error = "E: Write error - write (28: No space left on device)\n"
        with pytest.raises(BedplateError, match="no space left"):
            run(host, PLAIN)


class TestAuthorities:
    def test_without_the_tool_the_bundle_is_written(self) -> None:
        host = repositories_host()
        run(host, repositories_desired())
        assert host.files[BUNDLE] == CA
        assert BUNDLE in host.files[APT_AUTHORITIES]

    def test_with_the_tool_it_is_used_and_a_removed_authority_is_gone(self) -> None:
        host = repositories_host_with_tool()
        run(host, repositories_desired())
        assert host.files[BUNDLE] == CA
        run(host, replace(repositories_desired(), authorities=()))
        assert CA not in host.files[BUNDLE] and APT_AUTHORITIES not in host.files
        assert not [p for p in host.files if p.startswith("/usr/local/share/ca-certificates/bedplate-")]

    def test_installing_the_tool_later_changes_nothing(self) -> None:
        host = repositories_host()
        run(host, repositories_desired())
        host.files["/usr/sbin/update-ca-certificates"] = ""
        host.files["/usr/share/mozilla.pem"] = OTHER_CA
        host.run(["update-ca-certificates"])
        assert not run(host, repositories_desired()).changed


class TestProxy:
    proxy = Proxy(
        "http://proxy:3128", "http://proxy:3128", ("10.244.0.0/16", "10.96.0.0/12", "10.0.0.0/24", "10.0.0.100", ".example")
    )

    def desired(self) -> RepositoriesDesired:
        return RepositoriesDesired(apt=(SOURCE,), proxy=self.proxy, lock_timeout_seconds=0)

    def test_d36_no_proxy_keeps_user_entries_and_the_stale_script_is_named(self) -> None:
        host = debian()
        host.files["/etc/profile.d/proxy.sh"] = (
            'export http_proxy="http://me:pw@old:8080"\nexport NO_PROXY=intra.example,$HOME,10.0.0.0/24\n'
        )
        host.files["/etc/environment"] = "no_proxy=git.internal\n"
        outcome = run(host, self.desired())
        line = next(line for line in host.files[PROFILE].splitlines() if line.startswith("export no_proxy="))
        assert line.split()[1] == "no_proxy=10.244.0.0/16,10.96.0.0/12,10.0.0.0/24,10.0.0.100,.example,git.internal,intra.example"
        warning = outcome.problems[0]
        assert warning.severity == "warning" and warning.what == "stale proxy in /etc/profile.d/proxy.sh"
        assert "pw" not in str(warning) and "http://old:8080" in warning.found
        assert PROFILE.rpartition("/")[2] > "proxy.sh", "login shells read ours last"
        assert not run(host, self.desired()).changed

    def test_apt_reaches_exempt_sources_directly(self) -> None:
        host = debian()
        run(host, self.desired())
        assert host.files[APT_PROXY] == (
            'Acquire::http::Proxy "http://proxy:3128";\nAcquire::https::Proxy "http://proxy:3128";\n'
            'Acquire::http::Proxy::depot.example "DIRECT";\n'
        )

    def test_no_proxy_any_more_removes_both_files(self) -> None:
        host = debian()
        run(host, self.desired())
        run(host, PLAIN)
        assert APT_PROXY not in host.files and PROFILE not in host.files

    def test_credentials_are_never_shown(self) -> None:
        secret = replace(self.desired(), proxy=Proxy("http://me:geheim@proxy:3128"))
        host = debian()
        assert "geheim" not in str([c.public() for c in run(host, secret).changes])
        assert "geheim" not in str([c.public() for c in run(host, self.desired(), check=True).changes])
        assert "geheim" not in str([c.public() for c in run(host, PLAIN).changes])

    def test_credentials_of_a_source_are_never_shown(self) -> None:
        host = debian()
        secret = replace(PLAIN, apt=(replace(SOURCE, uris=("https://me:geheim@depot.example/apt",)),))
        host.update_error = "E: Failed to fetch https://me:geheim@depot.example/apt/dists/stable/InRelease  404\n"
        with pytest.raises(BedplateError, match=r"https://depot\.example/apt: ") as error:
            run(host, secret)
        assert "geheim" not in str(error.value)
        host.update_error = ""
        run(host, secret)
        assert "geheim" not in str([c.public() for c in run(host, PLAIN).changes])

    @pytest.mark.parametrize(
        ("host", "entries", "answer"),
        [
            ("10.0.0.7", ["10.0.0.0/24"], True),
            ("fd00::7", ["10.0.0.0/24", "fd00::/64"], True),
            ("a.example", [".example"], True),
            ("example", ["*.example"], True),
            ("badexample", ["example"], False),
            ("10.0.1.7", ["10.0.0.0/24", ""], False),
        ],
    )
    def test_what_is_exempt(self, host: str, entries: list[str], answer: bool) -> None:
        assert exempt(host, entries) is answer
