# SPDX-License-Identifier: MIT
"""Tables and pictures of the results of training, and the commands that print them."""
