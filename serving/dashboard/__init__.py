# SPDX-License-Identifier: MIT
"""The pages of the registry, below /ui/, for people in a browser.

    pages.py       templates, headers, and the route class of all pages
    forms.py       what a form has sent, and the check that it comes from a page of ours
    words.py       figures and times as people read them
    assets.py      the static files
    events.py      server-sent events: which topics have changed, so that pages load their figures anew
    parts.py       all routers, and what the pages keep in memory
    overview.py, fleet.py, ...    a module for each page, with its queries and its forms

Each page is HTML that the server makes. It works without scripts: links, forms, and figures as tables. With scripts the
figures are drawn (uPlot) and pages follow what moves (htmx and events). All links are relative, so that the pages
work below any prefix of a proxy.
"""
