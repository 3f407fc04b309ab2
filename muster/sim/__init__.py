"""A whole cluster in simulated time: the controllers of a real one, a store in memory and a clock that is told."""
