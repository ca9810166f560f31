"""Requests that arrive together: what a server makes of them, how much of it is needed, and where the time of a request goes.

    summarise(run_all(Simulation(plan, steps, room, arrivals=draw_arrivals(10, 300, shape, random))), duration_s=300).ttft_p99_s

`arrivals` makes the requests. `simulation` serves them step by step (SimPy), with the times of `lib.speed.steps` and the memory of
`lib.memory.cache_headroom`. `server` chooses hardware and the number of replicas, and `latency` splits a request's time into parts.
"""
