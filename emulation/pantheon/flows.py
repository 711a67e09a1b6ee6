# SPDX-License-Identifier: MIT
"""Whether a scheme can run on this machine, and the command lines of the two ends of its flow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, get_args

from emulation.mahimahi import in_bpf
from emulation.mahimahi.in_bpf import available_ccas
from emulation.pantheon.schemes import Role, Scheme, SchemeError
from kmod.bpf_host import BPF_CCAS
from kmod.ensemble import Ensemble


def _priority(scheme: Scheme, ensembles: Mapping[str, Ensemble]) -> str:
    """Return the priority of a scheme's sockets, which chooses the delay class; "" for the default class.

    Raises SchemeError if there is no ensemble of the algorithm, or it has no such class.
    """
    if not scheme.target:
        return ""
    ensemble = ensembles.get(scheme.cca)
    if ensemble is None:
        raise SchemeError(
            f"{scheme.name}: expected an ensemble with classes, got none; use --ensemble {scheme.cca}=FILE"
        )
    wanted_us = round(float(scheme.target.removesuffix("ms")) * 1000)
    classes = [each.queueing_delay_us for each in ensemble.classes]
    if wanted_us not in classes:
        has = ", ".join(f"{each / 1000:g}ms" for each in classes) or "none"
        raise SchemeError(f"{scheme.name}: expected a delay class of the ensemble ({has}), got {scheme.target}")
    # Priority 1 selects the first class.
    return str(classes.index(wanted_us) + 1)


def flow_of(scheme: Scheme, ensembles: Mapping[str, Ensemble]) -> dict[str, Any]:
    """Return the command lines of the two ends of a flow.

    Raises SchemeError if the wrapper cannot run, or the kernel lacks the algorithm.
    """
    priority = _priority(scheme, ensembles)
    if priority:
        scheme = replace(scheme, leading=(*scheme.leading, "--priority", priority))
    first: Role = scheme.run_first()
    words = {
        role: scheme.words(role, "PORT") if role == first else scheme.words(role, "ADDRESS", "PORT")
        for role in get_args(Role)
    }
    return {"first": first, **words}


def check_scheme(scheme: Scheme) -> None:
    """Check that a scheme can run here, as far as that is known without running it.

    Raises SchemeError if a build or an algorithm of the kernel is missing. Of Pantheon's wrappers this is not known.
    """
    if scheme.is_built_in and scheme.wrapper.name != "tcp.py" and (missing := scheme.ask("check").strip()):
        raise SchemeError(f"{scheme.name}: {missing}")
    refuse_without_kernel(scheme, () if in_bpf.lacking() else in_bpf.CCAS)


def refuse_without_kernel(scheme: Scheme, loaded: Collection[str]) -> None:
    """Raise SchemeError if a scheme of the kernel's TCP uses an algorithm that this kernel does not have.

    loaded: the algorithms that this test has loaded in BPF. Algorithms that another program has loaded do not count,
    because they may have other parameters.
    """
    if not scheme.is_built_in or scheme.wrapper.name != "tcp.py":
        return
    available = available_ccas()
    if scheme.cca and scheme.cca not in loaded and not available.get(BPF_CCAS[scheme.cca]):
        raise SchemeError(f"{scheme.name}: expected this kernel to have {scheme.cca}; {in_bpf.lacking()}")
    if not scheme.cca and scheme.leading[0] not in available:
        raise SchemeError(
            f"{scheme.name}: expected this kernel to have {scheme.leading[0]}, it does not; "
            f"load its module (modprobe tcp_{scheme.leading[0]})"
        )
