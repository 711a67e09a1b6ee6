"""Ensembles: published once, kept unchanged under their digest."""
