"""The local node: containers' commands as processes of this machine."""
