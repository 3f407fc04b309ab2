"""The device plugin: tells the kubelet of cards, and gives containers the shares that their pods were given.

`messages` and `protobuf` are what the kubelet speaks, on `sockets`; `service` answers it; `grants` says who gets what;
`containers` is what a container then sees, and `disk` where that is kept. Put together by `app` for `muster agent`.
"""
