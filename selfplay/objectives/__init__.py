"""The arithmetic of the papers as pure functions: advantages, rewards, branch balance, pass@k and intervals.

To add an estimator, write the function in its module and name it in the module's registry
(`ADVANTAGES`, `PROPOSER_REWARDS`, `BALANCE_MODES`); configurations select by that name.
"""
