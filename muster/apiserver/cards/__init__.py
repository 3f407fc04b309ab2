"""Shares of cards for a scheduler that is not Muster's: HAMi's extender and webhook over HTTPS.

`asgi` answers a stock kube-scheduler and an API server; `wire` is what they send; `extender` finds nodes and binds, on
the `CardCluster` that `app` fills in; `knowledge` is what is known of the cluster at the moment.
"""
