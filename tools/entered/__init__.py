r"""A count of today's lines in the definitions that the tests of an early state of the repository ("then") enter.

With a clone of the repository at that state in THEN::

    python -m tools.entered.tests_of_then THEN > tests.txt
    ENTERED_LOG=today.log ENTERED_TESTS=tests.txt PYTHONPYCACHEPREFIX=cache PYTHONPATH=tools/entered:src \
        python -m pytest -p sitecustomize tests
    (cd THEN; ENTERED_LOG=then.log PYTHONPYCACHEPREFIX=cache PYTHONPATH=HERE/tools/entered:src python -m pytest)
    python -m tools.entered.lines today.log THEN THEN/then.log

The paths of the logs have to be absolute, because tests start processes in other folders. The tests take an hour.
"""
