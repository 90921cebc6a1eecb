r"""The lines of today that hold what an early state of the repository held, by the definitions that its tests enter.

With a clone of the repository at that state in THEN::

    python -m tools.entered.tests_of_then THEN > tests.txt
    ENTERED_LOG=today.log ENTERED_TESTS=tests.txt PYTHONPYCACHEPREFIX=cache PYTHONPATH=tools/entered:src \
        python -m pytest -p sitecustomize tests
    (cd THEN; ENTERED_LOG=then.log PYTHONPYCACHEPREFIX=cache PYTHONPATH=HERE/tools/entered:src python -m pytest)
    python -m tools.entered.lines today.log THEN THEN/then.log

The names of the logs have to be absolute, for tests that start processes elsewhere. The tests take an hour.
"""
