# SPDX-License-Identifier: MIT
"""Training jobs: the registry queues them, and runners on any machine lease and train them.

endpoints.py, service.py, repository.py, schemas.py   the registry's part, which imports nothing of training
studies.py                                            the studies that the registry's settings permit
upkeep.py                                             ends leases that ran out, and deletes old jobs
client.py                                             requests of commands and runners
course.py                                             progress of an attempt over time
runner.py, work.py, child.py                          the runner, its attempt at a job, and the training process

submit -> queued -> running -> done        the ensemble is published, in the same transaction
            ^          |----> failed       training refused its input, or the lease was lost too often
            |          |----> cancelled
            '-- lease runs out, or the runner stops
"""
