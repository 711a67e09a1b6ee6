# SPDX-License-Identifier: MIT
"""Who may use the registry's API: principals, their tokens, and the audit log of all changes.

request -> RequestIds       gives it an id (serving/http/layers.py)
        -> check.py         finds its token in known.py, and makes the `Caller`
        -> a route          requires the scope that its endpoint declares, before its body (serving/access/routes.py)
        -> a service        records the change in the audit log, in the transaction of the change
"""
