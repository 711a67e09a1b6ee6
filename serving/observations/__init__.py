# SPDX-License-Identifier: MIT
"""Files of observations: samples of the connections of servers, which `ccatune observe` uploads for advice.

endpoints.py, service.py, repository.py, schemas.py   as for the other resources
retention.py                                          deletes files by age
"""
