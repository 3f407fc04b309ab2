"""Muster as the webhooks of a real API server: the embedded server's own rules, asked over HTTPS.

`asgi` answers reviews; `admission` and `conversion` say what the rules say; `configurations` makes the objects that
have an API server ask; `authorities`, `keeping` and `serving` are about certificates and the socket. Put together by
`app`. What Muster itself asks of users' webhooks is in `webhooks`.
"""
