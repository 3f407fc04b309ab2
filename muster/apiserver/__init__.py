"""The API server: Kubernetes' API over the store, for kubectl and every client that speaks it."""
