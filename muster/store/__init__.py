"""Where objects live: the ports Store and Clock, what implements them, and the rules that every object obeys."""
