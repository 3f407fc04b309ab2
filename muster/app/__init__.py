"""The app: builds what a command runs out of the parts, and is the one place that knows all of them."""
