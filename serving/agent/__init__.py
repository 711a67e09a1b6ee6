# SPDX-License-Identifier: MIT
"""The agent: it applies the tables that a channel offers to a server's kernel.

    cli, commands    the command line: the agent itself; status, resume, forget, unit, enable and disable
    settings, errors, log
    loop, threads    the main loop; the threads that poll and report
    applier          applies the tables of one CCA
    state            what is known of one CCA, and the decision and the report that follow from it
    kernel, table    the kernel's files of a CCA; a table, its signatures, and the serials seen
    store            the state folder
    client, connection, trust    the registry's client, its HTTP and TLS, and the check of signatures
    switch           enables and disables an algorithm on this machine

This package imports only kmod, click and the standard library. It exports no names of its own: each module is imported
by its name, so that the agent applies its last known good table before it imports modules that this does not need.
"""
