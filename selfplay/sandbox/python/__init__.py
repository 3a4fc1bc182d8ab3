"""Model-written Python under guard: `pool.PythonSandbox` runs it, `zygote` is what runs on the other side."""
