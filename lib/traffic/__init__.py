"""Requests that arrive together: what a server makes of them, how much of it is needed, and where the time of a request goes.

    summarise(run_all(Simulation(plan, steps, room, arrivals=draw_arrivals(10, 300, shape, random))), duration_s=300).ttft_p99_s

`arrivals` are the requests, `simulation` serves them step by step (SimPy) with the times of `lib.speed.steps` and the memory of
`lib.memory.cache_headroom`, `server` says what serves them and how much of it is needed, `latency` where a request's time goes.
"""
